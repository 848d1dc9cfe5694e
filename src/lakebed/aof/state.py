"""The state of a log that is open for writing, which its parts share.

It is kept in memory only; nothing here waits or does I/O. `mutex` guards every attribute, the chain
and its segments. It is held for a few lines at a time and never during I/O. A single value may be
read without it where a slightly old value does no harm.

Only `transitions` changes which segments there are, and only `flusher` how far they are durable.
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
    """The values shared by appending, flushing, sealing and the log itself."""

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
        self.coordinator_watermark = recovered.coordinator_watermark  # set by the log's user
        self.last_timestamp = recovered.last_timestamp  # the last automatic timestamp
        self.is_tail_full = False  # the last append had no room and could not roll over
        self.is_closed = False
        self.error: RetryError | None = None  # why flushes currently fail; retried
        self.failure: LakebedError | None = None  # the failure that ended writing

    def check_writable(self) -> None:
        """Raises if the log is closed or writing has failed. Called with the mutex held."""
        if self.is_closed:
            raise Closed(f"{self.name}: the log is closed")
        if self.failure is not None:
            raise Poisoned(
                "append",
                self.folder,
                why=f"the log takes no more writes since an earlier failure: {self.failure}",
            )

    def is_durable(self, record_id: RecordId | None) -> bool:
        """Returns whether that record, or everything appended so far, is durable.

        Called with the mutex held.
        """
        if record_id is not None:
            return record_id < self.durable
        last = self.chain.last_written()
        return last is None or self.durable >= last.position(last.end)

    def appended_end(self) -> RecordId:
        """Returns where the next record will go, if it fits. Called with the mutex held."""
        return self.chain.active.position(self.chain.active.end)
