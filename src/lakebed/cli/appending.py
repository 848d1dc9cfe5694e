"""Appends batches to a log and waits where the log asks for it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakebed.aof.errors import BackpressureKind, NotDurableYet, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import LakebedError, RetryError

if TYPE_CHECKING:
    from lakebed.api.surface import Log
    from lakebed.api.surface import Store as Writer

_WAIT_S = 60.0


class Appender:
    """Counts what it appended; `finish` makes it durable."""

    def __init__(self, log: Log, *, ext_id: int) -> None:
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
                self._count(error.record_ids)
                payloads = payloads[len(error.record_ids) :]
                done = [self._append_patiently(payloads[0])] if self._wait(error) else []
            self._count(done)
            payloads = payloads[len(done) :]

    def finish(self) -> None:
        """When it returns, everything is durable; `NotDurableYet` says how far it is if not."""
        try:
            self._log.flush()
        except RetryError as error:
            if isinstance(self._log, Aof):
                with contextlib.suppress(LakebedError):
                    self._log.close()  # so that nothing of it is written later
            raise self._not_durable(error) from error

    def _not_durable(self, error: RetryError) -> NotDurableYet:
        end = self._log.durable_end()
        told = f"{self.count} records were appended, up to {self.last}; durable is what is before"
        why = f"{told} {end}, the rest may still become so: look before appending it again"
        return NotDurableYet(f"{why}: {error}")

    def _count(self, record_ids: Sequence[RecordId]) -> None:
        self.count += len(record_ids)
        self.last = record_ids[-1] if len(record_ids) else self.last

    def _wait(self, error: WouldBlock) -> bool:
        """Whether the next record has to wait by itself: that of another program's log."""
        # A flush also tells whether the disk is full, which waiting alone would not.
        self.finish()
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
    return int(store.configuration()["aof"]["segment_bytes"])
