"""Appends batches to a log, and waits when the log refuses more (backpressure)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakebed.aof.errors import BackpressureKind, NotDurableYet, WouldBlock
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import LakebedError, RetryError

if TYPE_CHECKING:
    from lakebed.api.surface import Store

_WAIT_S = 60.0


class Appender:
    """Appends records to one log and counts them. `finish` makes them durable."""

    def __init__(self, store: Store, log: str, *, ext_id: int) -> None:
        self._store = store
        self._log = store.log(log)
        self._ext_id = ext_id
        self.count = 0
        self.last: RecordId | None = None

    def append(self, payloads: Sequence[bytes]) -> None:
        """Appends all payloads.

        When the log accepts no more records for now, calls `finish`, and, if the log then needs a
        new segment, waits for it; raises `WouldBlock` if that takes longer than `_WAIT_S` seconds.
        """
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
        """Waits until all records are durable.

        If the flush fails with a `RetryError`, for example because the disk is full, closes the
        store and raises `NotDurableYet`, which states which records are durable.
        """
        try:
            self._log.flush()
        except RetryError as error:
            failure = self._not_durable(error)
            with contextlib.suppress(LakebedError):
                self._store.close()  # so that nothing is written later
            raise failure from error

    def _not_durable(self, error: RetryError) -> NotDurableYet:
        end = self._log.durable_end()
        return NotDurableYet(
            f"{self.count} records were appended, up to {self.last}; those before {end} are "
            f"durable, the others may still become durable: check before appending them again: "
            f"{error}"
        )

    def _count(self, record_ids: Sequence[RecordId]) -> None:
        self.count += len(record_ids)
        self.last = record_ids[-1] if len(record_ids) else self.last

    def _wait(self, error: WouldBlock) -> bool:
        """Flushes the log. Returns whether the next record must also wait for a segment."""
        # A flush also reports a full disk, which waiting alone would not.
        self.finish()
        return error.kind is not BackpressureKind.FLUSH

    def _append_patiently(self, payload: bytes) -> RecordId:
        return self._log.append_record_with_timeout(payload, _WAIT_S, ext_id=self._ext_id)


def segment_bytes(store: Store) -> int:
    """Returns the configured size of a segment of a log, in bytes."""
    return int(store.configuration()["aof"]["segment_bytes"])
