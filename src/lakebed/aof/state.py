"""What is true of a log that is open for writing: the values that its parts share.

In memory only; nothing here waits or touches the disk. `mutex` guards every attribute, and the
chain with its segments: it is held for a few lines and never across I/O. A single value may be
looked at without it by those who can live with one that just changed.

Which segments there are is changed by `transitions` alone, how far they are durable by `flusher`.
"""

from __future__ import annotations

from lakebed.aof.chain import SegmentChain
from lakebed.aof.config import AofConfig
from lakebed.aof.format import RECORDS_START
from lakebed.aof.paths import LogPaths
from lakebed.aof.record_id import RecordId
from lakebed.aof.recovery import Recovered
from lakebed.base.errors import Closed, LakebedError, Poisoned, RetryError
from lakebed.base.runner import Runner


class LogState:
    """Shared by appending, flushing, sealing and the log itself."""

    def __init__(
        self, recovered: Recovered, *, paths: LogPaths, config: AofConfig, runner: Runner
    ) -> None:
        self.name = paths.name
        self.folder = paths.folder
        self.mutex = runner.mutex()
        self.chain = SegmentChain(
            recovered, paths=paths, segment_bytes=config.segment_bytes, clock=runner.clock
        )
        active = self.chain.active
        self.durable = active.position(active.durable or RECORDS_START)
        self.coordinator_watermark = recovered.coordinator_watermark  # as the log's user set it
        self.last_timestamp = recovered.last_timestamp  # the last that was given by the clock
        self.is_tail_full = False  # an append found no room and could not roll over
        self.is_closed = False
        self.error: RetryError | None = None  # why flushing fails at present
        self.failure: LakebedError | None = None  # why nothing is written any more

    def check_writable(self) -> None:
        """Refuse writes to a log that was closed, or failed for good. With the mutex."""
        if self.is_closed:
            raise Closed(f"{self.name}: the log is closed")
        if self.failure is not None:
            raise Poisoned("append", self.folder, why=f"failed earlier: {self.failure}")

    def is_durable(self, record_id: RecordId | None) -> bool:
        """That record, or everything appended so far. With the mutex."""
        if record_id is not None:
            return record_id < self.durable
        last = self.chain.last_written()
        return last is None or self.durable >= last.position(last.end)

    def appended_end(self) -> RecordId:
        """Where the next record will stand, if it fits. With the mutex."""
        return self.chain.active.position(self.chain.active.end)
