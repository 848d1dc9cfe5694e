"""Pins: ranges of logs and partitions that retention must not remove because they will be read.

Each file `pins/<id>.json` is one pin (see `pin_file`), which protects segments of a log or messages
of a partition. A pin is in effect until it expires, by the wall clock; to keep it longer, its owner
renews it before that. Any process may create pins, even if it opened the store read-only. After
creating a pin, the process must check that the pinned range still exists, because retention may
have removed the range just before.

Invariants:
- Retention sees every pin that was written before it lists the pins.
- In the process that runs retention, no pin is created or renewed between the check of the pins and
  the removal that follows from it, because both hold the same mutex. So when a pin was created, the
  range is gone already, or it stays. Another process may be late by a moment with its pin.
- A file that is not a valid pin is ignored, and so is a pin that expires more than
  `DURATION_MS_MAX` from now. If the clock is set back, a pin stays in effect for longer.
- Expired pins are removed by the writer, and by `pin` and `pin_ranges` of any process, but only
  `GRACE_MS` after they expired, so that a renewal that has just begun can finish first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from random import Random

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.errors import BadName, Corrupt, DiskError, InputError, LakebedError, NotFound
from lakebed.base.files import (
    Disk,
    PathLike,
    make_folders,
    read_file,
    remove_temporaries,
    replace_atomically,
)
from lakebed.base.units import KIB
from lakebed.store.pin_file import (
    DURATION_MS_MAX,
    OffsetRange,
    Pin,
    SegmentRange,
    check_pin,
    decode_pin,
    encode_pin,
)

__all__ = ["Pin", "Pins"]

FOLDER_NAME = "pins"
FILE_BYTES_MAX = 4 * KIB
GRACE_MS = 60_000

_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_SUFFIX = ".json"
_log = logging.getLogger(__name__)


def random_id() -> str:
    """Returns a new random id for a pin: 16 hexadecimal digits."""
    return secrets.token_hex(8)


def id_source(random: Random | None) -> Callable[[], str]:
    """Returns a function that returns a new id for a pin on each call.

    If `random` is given, the ids are drawn from it, so that a simulation with the same seed uses
    the same ids.
    """
    return random_id if random is None else lambda: f"{random.getrandbits(64):016x}"


class Pins:
    """The pins of one store. Thread-safe. Nothing is cached: calls read the pin files again."""

    def __init__(
        self,
        disk: Disk,
        root: PathLike,
        *,
        clock: Clock,
        is_writer: bool,
        new_id: Callable[[], str] = random_id,
        mutex: AbstractContextManager[object] | None = None,
    ) -> None:
        """With `is_writer`, listing the pins also removes those that expired `GRACE_MS` ago.

        `mutex` is that of the process's retention, if it runs any.
        """
        self._disk = disk
        self._folder = os.path.join(os.fspath(root), FOLDER_NAME)
        self._clock = clock
        self._is_writer = is_writer
        self._new_id = new_id
        self._mutex = mutex or contextlib.nullcontext()

    def pin(
        self, log: str, *, segment_start: int, segment_end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pin the segments `[segment_start, segment_end)` of a log for `duration_ms` from now.

        The pin is durable when this returns. Also removes pins that expired at least `GRACE_MS`
        ago.
        """
        self._remove_expired()
        return self.create(
            log=log, start=segment_start, end=segment_end, duration_ms=duration_ms, owner=owner
        )

    def pin_offsets(
        self, topic: str, partition: int, *, start: int, end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pin the messages `[start, end)` of a partition for `duration_ms` from now.

        The pin is durable when this returns.
        """
        return self.create(
            topic=topic,
            partition=partition,
            start=start,
            end=end,
            duration_ms=duration_ms,
            owner=owner,
        )

    def create(
        self,
        *,
        start: int,
        end: int,
        duration_ms: int,
        owner: str,
        log: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Pin:
        """Pin segments of a log, or messages of a partition, for `duration_ms` from now.

        The range is `[start, end)`: segment ids if `log` is given, or offsets if `topic` and
        `partition` are. The pin is durable when this returns.
        """
        now_ms = self._now_ms()
        _check_duration(duration_ms)
        pin = Pin(
            pin_id=self._new_id(),
            start=start,
            end=end,
            expires_ms=now_ms + duration_ms,
            owner=owner,
            created_ms=now_ms,
            log=log,
            topic=topic,
            partition=partition,
        )
        with self._mutex:
            self._add(pin)
        return pin

    def pin_ranges(
        self, ranges: Sequence[OffsetRange | SegmentRange], *, duration_ms: int, owner: str
    ) -> list[Pin]:
        """Pin all ranges for `duration_ms` from now; the pins are durable when this returns.

        If a range cannot be pinned, the pins that were already created are released, and the error
        is raised. Also removes pins that expired at least `GRACE_MS` ago.
        """
        self._remove_expired()
        pins: list[Pin] = []
        try:
            for item in ranges:
                pins.append(self.create(duration_ms=duration_ms, owner=owner, **item._asdict()))
        except BaseException:
            self.release_all([pin.pin_id for pin in pins])
            raise
        return pins

    def renew_all(self, pin_ids: Iterable[str], *, duration_ms: int) -> list[str]:
        """Make pins last for about `duration_ms` from now; return the ids of those that exist.

        Pins that were released, have expired or are damaged are left out.

        A pin that would last longer than `duration_ms` is shortened. A pin that still lasts for
        five sixths of `duration_ms` or more is left as it is, because it was renewed recently.
        """
        _check_duration(duration_ms)
        return [pin_id for pin_id in pin_ids if self._is_kept(pin_id, duration_ms)]

    def release_all(self, pin_ids: Iterable[str]) -> None:
        """Remove pins. Errors are ignored: a pin that cannot be removed stays until it expires."""
        for pin_id in pin_ids:
            with contextlib.suppress(LakebedError):
                self.release(pin_id)

    def renew(self, pin_id: str, *, duration_ms: int) -> Pin:
        """Make a pin last for `duration_ms` from now, and return the renewed pin.

        Raises `NotFound` if the pin was released, has expired or is damaged.
        """
        _check_duration(duration_ms)
        with self._mutex:
            now_ms = self._now_ms()
            pin = self._load(pin_id)
            if pin is None or pin.expires_ms <= now_ms:
                raise NotFound(
                    f"pin {pin_id} was released, has expired or is damaged; create a new pin"
                )
            renewed = replace(pin, expires_ms=now_ms + duration_ms, renewed_ms=now_ms)
            self._write(renewed)
        return renewed

    def release(self, pin_id: str) -> None:
        """Remove a pin. Idempotent."""
        path = self._path(pin_id)
        with contextlib.suppress(NotFound):
            self._disk.unlink(path)

    def active(self) -> list[Pin]:
        """Return the pins of logs that are in effect now."""
        return [pin for pin in self.all_active() if pin.log is not None]

    def active_offsets(self) -> list[Pin]:
        """Return the pins of partitions that are in effect now."""
        return [pin for pin in self.all_active() if pin.log is None]

    def all_active(self) -> list[Pin]:
        """Return the pins that are in effect now, those of logs first.

        In the process that has the store open for writing, this also removes pins that expired at
        least `GRACE_MS` ago.
        """
        now_ms = self._now_ms()
        active = []
        for pin in self._all():
            if pin.is_in_effect(now_ms):
                active.append(pin)
            elif self._is_writer and pin.expires_ms + GRACE_MS <= now_ms:
                self._remove(pin)
        return sorted(active, key=lambda pin: pin.log is None)

    def covers(self, log: str, segment_id: int) -> bool:
        """Whether a segment is pinned now. Also true if the pins cannot be read from disk."""
        return self._is_any(lambda pin: pin.covers(log, segment_id))

    def covers_offsets(self, topic: str, partition: int, start: int, end: int) -> bool:
        """Whether any message of `[start, end)` in a partition is pinned now.

        Also true if the pins cannot be read from disk.
        """
        return self._is_any(lambda pin: pin.overlaps(topic, partition, start, end))

    def _is_kept(self, pin_id: str, duration_ms: int) -> bool:
        with self._mutex:
            now_ms = self._now_ms()
            pin = self._load(pin_id)
            if pin is None or pin.expires_ms <= now_ms:
                return False
            left_ms = pin.expires_ms - now_ms
            if not duration_ms * 5 // 6 <= left_ms <= duration_ms:
                self._write(replace(pin, expires_ms=now_ms + duration_ms, renewed_ms=now_ms))
            return True

    def _is_any(self, holds: Callable[[Pin], bool]) -> bool:
        try:
            return any(map(holds, self.all_active()))
        except DiskError as error:
            _log.warning("pins cannot be read, so retention removes nothing: %s", error)
            return True

    def _all(self) -> list[Pin]:
        try:
            names = self._disk.names(self._folder)
        except NotFound:
            return []
        ids = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
        pins = [self._load(pin_id) for pin_id in ids if _ID.fullmatch(pin_id)]
        return [pin for pin in pins if pin is not None]

    def _load(self, pin_id: str) -> Pin | None:
        """Loads a pin; returns None if its file is missing or is not a valid pin."""
        path = self._path(pin_id)
        try:
            return decode_pin(read_file(self._disk, path, size_max=FILE_BYTES_MAX), pin_id=pin_id)
        except NotFound:
            return None
        except (Corrupt, InputError) as error:
            _log.warning("%s is not a valid pin and is ignored: %s", path, error)
            return None

    def _add(self, pin: Pin) -> None:
        check_pin(pin)
        if not self._disk.is_folder(self._folder):
            make_folders(self._disk, self._folder)
        self._write(pin)

    def remove_temporaries(self) -> None:
        """Removes all temporary files from the folder; killed processes may have left some.

        Only the process that has the store open for writing may call this. Errors are ignored:
        leftover files must not prevent a store from opening.
        """
        with contextlib.suppress(LakebedError):
            if self._disk.is_folder(self._folder):
                remove_temporaries(self._disk, self._folder)

    def _write(self, pin: Pin) -> None:
        path, data = self._path(pin.pin_id), encode_pin(pin)
        try:
            replace_atomically(self._disk, path, data)
        except NotFound:  # a writer that was just opened has removed the temporary file
            replace_atomically(self._disk, path, data)

    def _remove_expired(self) -> None:
        now_ms = self._now_ms()
        for pin in self._all():
            if pin.expires_ms + GRACE_MS <= now_ms:
                self._remove(pin)

    def _remove(self, pin: Pin) -> None:
        # Listing pins must not fail because an expired one cannot be removed.
        with contextlib.suppress(LakebedError):
            self._disk.unlink(self._path(pin.pin_id))

    def _path(self, pin_id: str) -> str:
        if not _ID.fullmatch(pin_id):
            raise BadName(
                f"pin {pin_id[:40]!r}: the id of a pin is 16 hexadecimal digits, in lower case"
            )
        return os.path.join(self._folder, pin_id + _SUFFIX)

    def _now_ms(self) -> int:
        return self._clock.wall_ns() // NS_PER_MS


def _check_duration(duration_ms: int) -> None:
    if not 0 < duration_ms <= DURATION_MS_MAX:
        raise InputError(
            f"duration_ms = {duration_ms}: a pin must last from 1 to {DURATION_MS_MAX} ms; "
            "to keep it for longer, renew it before it expires"
        )
