"""Group commit: many callers, one write and one sync.

- `barrier`: the queue, the leader and the completions, whatever is committed (`batch`);
- `tail`: the sink that appends bytes to a file;
- `space`: the reserve of free disk space below which writes are refused;
- `linger`: how long items without a waiting caller are held back so that a batch can form;
- `config`: the ceilings.

    with Barrier(FileTail(file, end=0), config=CommitConfig(), runner=runner) as barrier:
        offset = barrier.commit(b"...", size=3)      # durable when it returns
        ticket = barrier.submit(b"...", size=3)      # or: durable when ticket.wait() does

On its way to the disk a write has these names, and no others:

- the *item* is what its engine commits, and the engine's own class: a `Change` of the object
  store, an `Append` (or another `Change` of one partition's writer) of a topic, a chunk of records
  of a log, an event of a journal;
- the `Barrier` queues items and has them committed, in order;
- a `Batch` is the items that one commit covers: they succeed, fail and are woken together;
- a `Ticket` is the promise of one item's result. It is waited for in a thread (`wait`), or in an
  event loop (`lakebed.edge.worker`, which wakes the loop once for all tickets of a batch);
- an `AppendFuture` is the ticket of a topic's append, for programs that embed the store.
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
