"""What a crash left open is sealed: each segment whose row says OPEN, and each without a row.

The records are read and their hashes checked. Behind the last whole one everything is cut, the
bytes that no row confirms are written again (they may be in the page cache alone), bloom filter,
index and footer are put behind them, and all of it is synced. A footer that is there already is
not believed, but written anew: what seals a segment follows from its records.

- Bad bytes that a row confirms are damage: they are saved in the quarantine, left where they are,
  and reported; what is whole around them is indexed.
- Bad bytes above that were promised to nobody, and only logged.
- A segment without a row in which no record is whole is removed: nothing can refer to it.
- An OPEN segment whose file is missing keeps its row, and is reported each time: the file may come
  back from a backup.
- A segment that cannot be read or written now keeps its row, too: all that is referred to in it
  is durable, and the next opening tries again.

Recovery may itself be cut short anywhere; doing it again gives the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.errors import DiskError, NoSpace, UnknownVersion
from lakebed.base.files import Disk, File, PathLike
from lakebed.base.files.quarantine import save_in_quarantine
from lakebed.base.units import MIB
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.segment_file import Damage, Walk, seal_block, segment_header, walk
from lakebed.seglake.segment_id import created_ms_of, segment_id_of, segment_path

_log = logging.getLogger(__name__)
_WINDOW_BYTES = 4 * MIB


class RecoveredSegments(NamedTuple):
    """What was found and done."""

    rows: list[SegmentRow]  # sealed, and to be recorded
    removed: list[str]  # ids of segments that had no row and no record
    damage: list[tuple[str, Damage]]


def recover_segments(
    disk: Disk,
    folder: PathLike,
    *,
    quarantine: PathLike,
    known: Mapping[str, SegmentRow],
    offsets_of: Callable[[str], Sequence[int]],
    clock: Clock,
) -> RecoveredSegments:
    """Seal what is open in `folder`, which is there. `known` are all rows, by segment.

    `offsets_of` tells where in a segment manifests say that chunks are; it is asked for those
    with damage alone. A SEALED segment costs a look at its length.
    """
    return _Recovery(disk, folder, quarantine, offsets_of, clock).run(known)


class _Recovery:
    def __init__(
        self,
        disk: Disk,
        folder: PathLike,
        quarantine: PathLike,
        offsets_of: Callable[[str], Sequence[int]],
        clock: Clock,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._quarantine = quarantine
        self._offsets_of = offsets_of
        self._clock = clock
        self._result = RecoveredSegments([], [], [])

    def run(self, known: Mapping[str, SegmentRow]) -> RecoveredSegments:
        found = set(filter(None, map(segment_id_of, self._disk.names(self._folder))))
        for segment_id in sorted(found | set(known)):
            row = known.get(segment_id)
            if row is not None and segment_id not in found:
                self._note(segment_id, Damage(0, row.size, "the file is missing"))
            elif row is not None and row.state == "SEALED":
                self._seal_open(row)
            else:
                self._try_to_seal(segment_id, row)
        if self._result.removed or any(row.segment_id not in known for row in self._result.rows):
            self._disk.sync_folder(self._folder)
        return self._result

    def _seal_open(self, row: SegmentRow) -> None:
        """Only whether a sealed segment is as long as it was; `lake_check` reads it."""
        try:
            with self._disk.open(segment_path(self._folder, row.segment_id)) as file:
                size = file.size()
        except DiskError as error:
            self._note(row.segment_id, Damage(0, row.size, str(error)))
            return
        if size != row.size:
            start, end = sorted((size, row.size))
            why = f"the file has {size} bytes, and had {row.size} when it was sealed"
            self._note(row.segment_id, Damage(start, end - start, why))

    def _try_to_seal(self, segment_id: str, row: SegmentRow | None) -> None:
        try:
            self._seal(segment_id, row)
        except NoSpace as error:
            _log.warning("segment %s stays open: %s", segment_id, error)
        except (DiskError, UnknownVersion) as error:
            self._note(segment_id, Damage(0, 0 if row is None else row.size, str(error)))

    def _seal(self, segment_id: str, row: SegmentRow | None) -> None:
        path = segment_path(self._folder, segment_id)
        confirmed_end = 0 if row is None else row.size
        with self._disk.open(path, writable=True) as file:
            found = self._walk(segment_id, file, confirmed_end)
            if found.entries or row is not None:
                self._result.rows.append(self._write_seal(segment_id, file, found, confirmed_end))
                return
        self._disk.unlink(path)
        self._result.removed.append(segment_id)

    def _walk(self, segment_id: str, file: File, confirmed_end: int) -> Walk:
        """The records; what is damaged among the confirmed ones is saved and reported."""
        size = file.size()
        found = walk(file, size=size, confirmed_end=confirmed_end)
        if found.damage:
            known_offsets = self._offsets_of(segment_id)
            found = walk(file, size=size, confirmed_end=confirmed_end, known_offsets=known_offsets)
        for damage in found.damage:
            if damage.offset < confirmed_end:
                self._save(segment_id, file, damage)
                self._note(segment_id, damage)
            else:
                _log.info("segment %s: unconfirmed bytes are bad: %s", segment_id, damage)
        return found

    def _write_seal(
        self, segment_id: str, file: File, found: Walk, confirmed_end: int
    ) -> SegmentRow:
        """Everything up to the footer is durable when it returns."""
        seal = seal_block([entry for entry, _ in found.entries], data_end=found.end)
        for start in range(confirmed_end, found.end, _WINDOW_BYTES):
            file.pwrite(start, file.pread(start, min(_WINDOW_BYTES, found.end - start)))
        if any(damage.offset == 0 for damage in found.damage):
            file.pwrite(0, segment_header())
        if file.size() > found.end:
            # Also a footer that is right: a sync that failed may have left its length undone.
            file.truncate(found.end)
        file.write_and_sync(found.end, [seal.data])
        return SegmentRow(
            segment_id=segment_id,
            state="SEALED",
            size=found.end + len(seal.data),
            footer_checksum=seal.checksum,
            created_ms=created_ms_of(segment_id),
            sealed_ms=self._clock.wall_ns() // NS_PER_MS,
        )

    def _save(self, segment_id: str, file: File, damage: Damage) -> None:
        """Piece by piece: all of a segment may be damaged."""
        for start in range(damage.offset, damage.offset + damage.length, _WINDOW_BYTES):
            length = min(_WINDOW_BYTES, damage.offset + damage.length - start)
            data = file.pread(start, length)
            if data:
                name = f"segment-{segment_id}-{start}.bin"
                save_in_quarantine(self._disk, self._quarantine, name, data)

    def _note(self, segment_id: str, damage: Damage) -> None:
        _log.error("segment %s: at byte %d: %s", segment_id, damage.offset, damage.why)
        self._result.damage.append((segment_id, damage))
