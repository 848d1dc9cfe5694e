"""Appends batches to a log and waits where the log asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.record_id import RecordId

_WAIT_S = 60.0


class Appender:
    """Counts what it appended; `finish` makes it durable."""

    def __init__(self, log: Aof, *, ext_id: int) -> None:
        self._log = log
        self._ext_id = ext_id
        self.count = 0
        self.last: RecordId | None = None

    def append(self, payloads: Sequence[bytes]) -> None:
        """All of them; flushes, or waits for a seal, whenever the log takes no more."""
        while payloads:
            try:
                done = self._log.append_records(payloads, ext_ids=self._ext_id)
            except WouldBlock as error:
                done = error.record_ids
                self._wait(error)
            self.count += len(done)
            self.last = done[-1] if len(done) else self.last
            payloads = payloads[len(done) :]

    def finish(self) -> None:
        """When it returns, everything is durable."""
        self._log.flush()

    def _wait(self, error: WouldBlock) -> None:
        # A flush also tells whether the disk is full, which waiting alone would not.
        self._log.flush()
        if error.kind is not BackpressureKind.FLUSH:
            self._log.wait_for_writable_segment(_WAIT_S)
