"""Group commit: many callers, one write and one sync.

- `barrier`: queues items and commits them in batches (`batch`);
- `tail`: the sink that appends bytes to a file;
- `space`: refuses writes that would use up the reserve of free disk space;
- `linger`: how long items without a waiting caller are held back so that a batch can form;
- `config`: the limits.

    with Barrier(FileTail(file, end=0), name="log", runner=runner, wake=wake_step) as barrier:
        offset = barrier.commit(b"...", size=3)      # durable when it returns
        ticket = barrier.submit(b"...", size=3)      # or: durable when ticket.wait() returns

These names are used for a write on its way to the disk:

- an *item* is what an engine commits: a `Change` of the object store, an `Append` (or another
  `Change`) of a topic partition, a chunk of records of a log, an event of a journal;
- the `Barrier` queues items and commits them in order;
- a `Batch` is the items of one commit, which complete together;
- a `Ticket` is the promise of one item's result. A thread waits for it with `wait`; an event loop
  uses `lakebed.edge.worker`, which wakes the loop once for all tickets of a batch;
- an `AppendFuture` wraps the ticket of an append to a topic, for programs that embed the store.
"""

from lakebed.base.commit.barrier import Barrier, Recover, Sink
from lakebed.base.commit.batch import Batch, Ticket
from lakebed.base.commit.config import CommitConfig
from lakebed.base.commit.linger import Linger
from lakebed.base.commit.space import SpaceReserve
from lakebed.base.commit.tail import FileTail

__all__ = [
    "Barrier",
    "Batch",
    "CommitConfig",
    "FileTail",
    "Linger",
    "Recover",
    "Sink",
    "SpaceReserve",
    "Ticket",
]
