"""The state of a log that is open for writing, which its parts share.

The state is kept in memory only; nothing here waits or does I/O. `mutex` guards every attribute,
including the chain and its segments. It is held only briefly, and not during I/O except while the
manifest log is being opened. A single value may be read without the mutex if a slightly outdated
value does no harm.

Once the log is open, only `transitions` starts, seals and retires segments, and only `flusher`
moves the durable end. The entries of segments in colder tiers are placed by `manifest_recorder` and
`tiers.segment_tiering`.
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
    """The state of one open log, shared by the code that appends, flushes and seals."""

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
        self.last_timestamp = recovered.last_timestamp  # the last automatic or recovered timestamp
        self.is_tail_full = False  # the last append had no room and could not roll over
        self.is_closed = False
        self.error: RetryError | None = None  # why flushes currently fail; retried
        self.failure: LakebedError | None = None  # the failure that ended writing

    def check_writable(self) -> None:
        """Raises `Closed` if the log is closed, and `Poisoned` if a failure has ended writing.

        The caller must hold the mutex.
        """
        if self.is_closed:
            raise Closed(f"{self.name}: the log is closed")
        if self.failure is not None:
            raise Poisoned(
                "append",
                self.folder,
                why="the log accepts no writes after an earlier failure; close it and open it "
                f"again: {self.failure}",
            )

    def is_durable(self, record_id: RecordId | None) -> bool:
        """Returns whether the record is durable; for None, whether all appended records are.

        The caller must hold the mutex.
        """
        if record_id is not None:
            return record_id < self.durable
        last = self.chain.last_written()
        return last is None or self.durable >= last.position(last.end)

    def appended_end(self) -> RecordId:
        """Returns the position after the last appended record. The caller must hold the mutex."""
        return self.chain.active.position(self.chain.active.end)
