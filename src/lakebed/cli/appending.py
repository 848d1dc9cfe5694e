"""Appends batches to a log and waits where the log asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.record_id import RecordId
from lakebed.store.store import Store

if TYPE_CHECKING:
    from lakebed.cli.writers import Writer
    from lakebed.client.log import RemoteLog

_WAIT_S = 60.0


class Appender:
    """Counts what it appended; `finish` makes it durable."""

    def __init__(self, log: Aof | RemoteLog, *, ext_id: int) -> None:
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
                if self._wait(error):
                    done = [*done, self._append_patiently(payloads[len(done)])]
            self.count += len(done)
            self.last = done[-1] if len(done) else self.last
            payloads = payloads[len(done) :]

    def finish(self) -> None:
        """When it returns, everything is durable."""
        self._log.flush()

    def _wait(self, error: WouldBlock) -> bool:
        """Whether the next record has to wait by itself: that of another program's log."""
        # A flush also tells whether the disk is full, which waiting alone would not.
        self._log.flush()
        if error.kind is BackpressureKind.FLUSH:
            return False
        if isinstance(self._log, Aof):
            self._log.wait_for_writable_segment(_WAIT_S)
            return False
        return True

    def _append_patiently(self, payload: bytes) -> RecordId:
        return self._log.append_record_with_timeout(payload, _WAIT_S, ext_id=self._ext_id)


def segment_bytes(store: Writer) -> int:
    """How long the segments of its logs are."""
    if isinstance(store, Store):
        return store.config.segment_bytes
    return int(store.config()["aof"]["segment_bytes"])
