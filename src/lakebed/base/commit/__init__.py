"""Group commit: many callers, one write and one sync.

- `barrier`: the queue, the leader and the completions, whatever is committed (`batch`);
- `tail`: the sink that appends bytes to a file;
- `space`: the reserve of free disk space below which writes are refused;
- `linger`: how long what nobody waits for waits for company;
- `config`: the ceilings.

    with Barrier(FileTail(file, end=0), config=CommitConfig(), runner=runner) as barrier:
        offset = barrier.commit(b"...", size=3)      # durable when it returns
        ticket = barrier.submit(b"...", size=3)      # or: durable when ticket.wait() does
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
