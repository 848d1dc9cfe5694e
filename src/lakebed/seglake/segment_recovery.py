"""Seals the segments that a crash left open: those whose row says OPEN, and those without a row.

A segment's row in the metadata confirms that the segment is durable up to the row's size, the
*confirmed end*. Recovery reads the records and checks their hashes. It truncates the file after the
last valid record, but never before the confirmed end, and writes the bytes after the confirmed end
again, because they may exist only in the page cache. Then it appends bloom filter, index and
footer, and syncs the file. An existing footer is not trusted but rebuilt from the records.

- Bad bytes before the confirmed end are damage: they are reported, then copied to the quarantine,
  and left in the file. Only a bad segment header is rewritten. The valid records before and after
  them are indexed. If they cannot be copied, the segment stays open, and recovery tries again when
  the store is opened the next time.
- Bad bytes after the confirmed end were never acknowledged. If a valid record follows them, they
  are left in the file and logged; otherwise they are cut off.
- A segment without a row and without a valid record is removed, because nothing refers to it.
- A segment whose file is missing keeps its row and is reported each time the store is opened,
  because the file may be restored from a backup.
- A segment that cannot be read or written keeps its row too. The records that manifests refer to
  are durable, and recovery tries again when the store is opened the next time.

Recovery can be interrupted at any point; running it again gives the same result.
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
    """The result of a recovery."""

    rows: list[SegmentRow]  # of newly sealed segments; the caller must record them
    removed: list[str]  # ids of segments that had no row and no valid record
    damage: list[tuple[str, Damage]]  # with the id of the damaged segment


def recover_segments(
    disk: Disk,
    folder: PathLike,
    *,
    quarantine: PathLike,
    known: Mapping[str, SegmentRow],
    offsets_of: Callable[[str], Sequence[int]],
    clock: Clock,
) -> RecoveredSegments:
    """Seals the open segments in `folder`, which must exist, and returns what it did and found.

    `known` has the rows of all segments by id. `offsets_of` returns the offsets of a segment's
    chunks that manifests refer to; it is called only for damaged segments. If a segment's row says
    SEALED, only the length of its file is checked.
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
        segment_ids = set(filter(None, map(segment_id_of, self._disk.names(self._folder))))
        for segment_id in sorted(segment_ids | set(known)):
            row = known.get(segment_id)
            if row is not None and segment_id not in segment_ids:
                self._note(segment_id, Damage(0, row.size, "the file is missing"))
            elif row is not None and row.state == "SEALED":
                self._check_length(row)
            else:
                self._try_to_seal(segment_id, row)
        if self._result.removed or any(row.segment_id not in known for row in self._result.rows):
            self._disk.sync_folder(self._folder)
        return self._result

    def _check_length(self, row: SegmentRow) -> None:
        """Reports a sealed segment whose file has the wrong length or cannot be opened.

        Does not read the contents; `lake_check` verifies them.
        """
        try:
            with self._disk.open(segment_path(self._folder, row.segment_id)) as file:
                size = file.size()
        except DiskError as error:
            self._note(row.segment_id, Damage(0, row.size, str(error)))
            return
        if size != row.size:
            start, end = sorted((size, row.size))
            why = f"the file has {size} bytes, but was sealed with {row.size} bytes"
            self._note(row.segment_id, Damage(start, end - start, why))

    def _try_to_seal(self, segment_id: str, row: SegmentRow | None) -> None:
        try:
            self._seal(segment_id, row)
        except NoSpace as error:
            _log.warning(
                "segment %s is not sealed until the store is opened again: %s", segment_id, error
            )
        except (DiskError, UnknownVersion) as error:
            self._note(segment_id, Damage(0, 0 if row is None else row.size, str(error)))

    def _seal(self, segment_id: str, row: SegmentRow | None) -> None:
        path = segment_path(self._folder, segment_id)
        confirmed_end = 0 if row is None else row.size
        with self._disk.open(path, writable=True) as file:
            contents = self._walk(segment_id, file, confirmed_end)
            if contents.entries or row is not None:
                self._result.rows.append(
                    self._write_seal(segment_id, file, contents, confirmed_end)
                )
                return
        self._disk.unlink(path)
        self._result.removed.append(segment_id)

    def _walk(self, segment_id: str, file: File, confirmed_end: int) -> Walk:
        """Reads the records. Damage before the confirmed end is reported and saved, other damage is
        only logged. All damage is reported before any of it is saved, because saving may fail.
        """
        size = file.size()
        contents = walk(file, size=size, confirmed_end=confirmed_end)
        if contents.damage:
            known_offsets = self._offsets_of(segment_id)
            contents = walk(
                file, size=size, confirmed_end=confirmed_end, known_offsets=known_offsets
            )
        for damage in contents.damage:
            if damage.offset < confirmed_end:
                self._note(segment_id, damage)
            else:
                _log.info(
                    "segment %s: at byte %d: %s; these bytes were never acknowledged",
                    segment_id,
                    damage.offset,
                    damage.why,
                )
        for damage in contents.damage:
            if damage.offset < confirmed_end:
                self._save(segment_id, file, damage)
        return contents

    def _write_seal(
        self, segment_id: str, file: File, contents: Walk, confirmed_end: int
    ) -> SegmentRow:
        """Seals the segment and returns its row. All bytes of the file are durable on return."""
        seal = seal_block([entry for entry, _ in contents.entries], data_end=contents.end)
        for start in range(confirmed_end, contents.end, _WINDOW_BYTES):
            file.pwrite(start, file.pread(start, min(_WINDOW_BYTES, contents.end - start)))
        if any(damage.offset == 0 for damage in contents.damage):
            file.pwrite(0, segment_header())
        if file.size() > contents.end:
            # Also if the footer is valid: after a failed sync the file's length may not be durable.
            file.truncate(contents.end)
        file.write_and_sync(contents.end, [seal.data])
        return SegmentRow(
            segment_id=segment_id,
            state="SEALED",
            size=contents.end + len(seal.data),
            footer_checksum=seal.checksum,
            created_ms=created_ms_of(segment_id),
            sealed_ms=self._clock.wall_ns() // NS_PER_MS,
        )

    def _save(self, segment_id: str, file: File, damage: Damage) -> None:
        """Copies the damaged bytes to the quarantine, piece by piece to bound the memory."""
        for start in range(damage.offset, damage.offset + damage.length, _WINDOW_BYTES):
            length = min(_WINDOW_BYTES, damage.offset + damage.length - start)
            data = file.pread(start, length)
            if data:
                name = f"segment-{segment_id}-{start}.bin"
                save_in_quarantine(self._disk, self._quarantine, name, data)

    def _note(self, segment_id: str, damage: Damage) -> None:
        _log.error("segment %s: at byte %d: %s", segment_id, damage.offset, damage.why)
        self._result.damage.append((segment_id, damage))
