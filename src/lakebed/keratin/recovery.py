"""Recovers a partition when it is opened for writing, after a clean close or a crash.

The records in the logs are authoritative. The manifest shows which sealed segments need not be
scanned, and indexes that do not match are rebuilt. The steps are always the same:

1. read the manifest; without a good manifest, every sealed segment is scanned;
2. list the segments by their file names, and remove those below the start offset, whose removal was
   interrupted;
3. trust the sealed segments that match the manifest and have usable indexes, unless they are needed
   to find the producers' last messages; scan the others;
4. scan the active segment from its checkpoint, or from its beginning: rewrite the good records that
   are not known to be durable, overwrite everything after them with zeros, and sync;
5. continue at the next offset according to the manifest, the published durable end or the logs,
   whichever is largest.

The *confirmed end* is the position up to which the published durable end or the checkpoint shows
that the active segment is durable.

- Bad bytes of the active segment from the confirmed end on are torn, and are cut (overwritten with
  zeros). If good records follow them, all these bytes are saved in the quarantine before they are
  cut.
- Bad bytes below the confirmed end, or in a sealed segment, are damage. So is a missing end of a
  sealed segment. The records of a damaged segment are left unchanged, and the segment is listed in
  `damaged`, for `repair` to make its remaining records readable.

Recovery may be interrupted at any point; running it again gives the same result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from lakebed.base.damage_ledger import TOPICS, Loss
from lakebed.base.errors import Corrupt, DataError, NotFound, Torn, UnknownVersion
from lakebed.base.files import Disk, File, read_file, remove_temporaries
from lakebed.base.files.quarantine import save_in_quarantine
from lakebed.base.files.windows import FileBytes
from lakebed.base.units import MIB
from lakebed.keratin.checkpoint import Checkpoint, load_checkpoint
from lakebed.keratin.durable_end import load_durable_end
from lakebed.keratin.format import (
    HEADER_BYTES_MAX,
    OFFSET_MAX,
    RECORDS_START,
    DurableEnd,
    LogHeader,
    ManifestSegment,
    ProducerRun,
)
from lakebed.keratin.index_file import decode_index, decode_time_index
from lakebed.keratin.log_bytes import LogBytes
from lakebed.keratin.log_file import decode_log_header, encode_log_header
from lakebed.keratin.log_walk import WINDOW_BYTES, LogWalk, last_byte, walk
from lakebed.keratin.manifest import PartitionManifest, load_manifest
from lakebed.keratin.paths import PartitionPaths, SegmentFile
from lakebed.keratin.producers import Producers, decode_producers
from lakebed.keratin.run import Run
from lakebed.keratin.segment import ActiveSegment
from lakebed.keratin.segment_files import create_segment, rebuild_indexes, remove_segment
from lakebed.keratin.view import PartitionSegment
from lakebed.kernels import Stop, crc32c, keratin_producers

_log = logging.getLogger(__name__)
_PRODUCERS_BYTES_MAX = 256 * MIB


@dataclass
class RecoveredPartition:
    """The state in which recovery leaves a partition, and from which its writer continues."""

    active: ActiveSegment
    created_ms: int
    sealed: list[PartitionSegment] = field(default_factory=list)
    damaged: list[PartitionSegment] = field(default_factory=list)  # of the sealed ones
    # The sizes of the sealed segments' `.idx` files, by base offset.
    index_bytes: dict[int, int] = field(default_factory=dict)
    producers: Producers = field(default_factory=Producers)
    next_offset: int = 0
    start_offset: int = 0
    writer_epoch: int = 1
    torn_bytes: int = 0
    checkpoint_end: int = RECORDS_START  # the position that the checkpoint covers, if one was used
    scanned_count: int = 0  # segments that were read completely
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _ScannedLog:
    """The result of walking the log of one segment to its end."""

    segment: ActiveSegment
    walked: LogWalk
    is_damaged: bool
    header_error: DataError | None


class Recovery:
    """One run of the recovery of one partition."""

    def __init__(
        self,
        disk: Disk,
        paths: PartitionPaths,
        *,
        now_ms: int,
        index_stride_bytes: int,
        record: Callable[[Loss], None] | None = None,
    ) -> None:
        self._record = record
        self._disk = disk
        self._paths = paths
        self._now_ms = now_ms
        self._stride = index_stride_bytes
        self._producers = Producers()
        self._producers_base = 0  # producers' runs are found by scanning from this offset on
        self._result = RecoveredPartition(self._new_segment(0), now_ms)

    def run(self) -> RecoveredPartition:
        result, paths = self._result, self._paths
        for folder in (paths.folder, paths.segments):
            remove_temporaries(self._disk, folder)
        confirmed = load_durable_end(self._disk, paths.durable_end)
        result.writer_epoch = confirmed.writer_epoch + 1 if confirmed else 1
        manifest = self._load_manifest()
        if manifest is not None:
            result.created_ms = manifest.created_ms
            result.start_offset = manifest.start_offset
            result.next_offset = manifest.next_offset
        if confirmed is not None:
            result.next_offset = max(result.next_offset, confirmed.next_offset)
        bases = self._bases(manifest)
        listed = {entry.base_offset: entry for entry in manifest.segments} if manifest else {}
        sealed, last = (bases[:-1], bases[-1]) if bases else ([], None)
        if last is not None and last in listed:
            sealed, last = bases, None  # the active segment is missing
        checkpoint = None if last is None else self._load_checkpoint(last)
        if checkpoint is None:
            self._load_producers(bases)
        else:
            self._producers = Producers(checkpoint.runs)
            self._producers_base = checkpoint.base_offset
        for index, base in enumerate(sealed):
            following = bases[index + 1] if index + 1 < len(bases) else None
            self._examine_sealed(base, following, listed.pop(base, None))
        for missing in listed.values():
            self._note_missing(missing.base_offset, missing.last_offset + 1)
        self._note_missing_active(manifest, bases)
        if last is not None:
            self._recover_active(last, confirmed, checkpoint)
        else:
            self._begin_active(manifest)
        result.producers = self._producers
        if (
            manifest is None and bases
        ):  # with a manifest, messages missing before the first segment are lost
            result.start_offset = self._first_base()
        return result

    # Finding the files.

    def _load_manifest(self) -> PartitionManifest | None:
        try:
            return load_manifest(self._disk, self._paths.manifest)
        except NotFound:
            return None
        except UnknownVersion:
            raise
        except DataError as error:
            self._problem(f"{error}; the manifest is rebuilt by scanning the segments")
            return None

    def _bases(self, manifest: PartitionManifest | None) -> list[int]:
        """Finishes interrupted removals; returns the base offsets of the remaining segments."""
        bases = self._paths.bases(self._disk)
        start = manifest.start_offset if manifest else 0
        # A segment ends where the next one begins, or before.
        removed = [base for base, next_base in pairwise(bases) if next_base <= start]
        for base in removed:
            remove_segment(self._disk, self._paths, base)
        kept = set(bases[len(removed) :])
        for base, file in self._paths.files(self._disk):
            if base not in kept:  # its log was removed
                self._disk.unlink(self._paths.segment(base, file))
        return bases[len(removed) :]

    def _load_checkpoint(self, base: int) -> Checkpoint | None:
        """Returns the checkpoint of the active segment, or None if there is no usable one."""
        path = self._paths.segment(base, SegmentFile.LOG)
        try:
            checkpoint = load_checkpoint(self._disk, self._paths.checkpoint)
            if checkpoint.base_offset != base:
                return None  # it belongs to an earlier segment
            with self._disk.open(path) as file:
                return checkpoint if _goes_on_from(checkpoint, file, path) else None
        except NotFound:
            return None
        except UnknownVersion as error:
            _log.warning("%s; all of %s is scanned instead", error, path)
        except DataError as error:
            self._problem(f"{error}; all of {path} is scanned instead")
        return None

    def _load_producers(self, bases: list[int]) -> None:
        """Loads the newest `.producers` file that can be read."""
        for base in reversed(bases):
            path = self._paths.segment(base, SegmentFile.PRODUCERS)
            try:
                data = read_file(self._disk, path, size_max=_PRODUCERS_BYTES_MAX)
                runs = decode_producers(data, path=path, base_offset=base)
            except NotFound:
                continue
            except UnknownVersion:
                raise
            except DataError as error:
                self._problem(f"{error}; the logs are scanned for the producers instead")
                continue
            self._producers, self._producers_base = Producers(runs), base
            return

    def _first_base(self) -> int:
        sealed = self._result.sealed
        return sealed[0].base_offset if sealed else self._result.active.base_offset

    # Sealed segments.

    def _examine_sealed(
        self, base: int, following: int | None, listed: ManifestSegment | None
    ) -> None:
        path = self._paths.segment(base, SegmentFile.LOG)
        with self._disk.open(path) as file:
            size = file.size()
            is_listed = listed is not None and size == listed.log_bytes
            if is_listed and listed and self._has_index(listed) and base < self._producers_base:
                self._add_sealed(listed, path)
                return
            scanned = self._scan(file, path, base, size)
            end, found_offset = scanned.walked.end, scanned.walked.next_offset
            has_more = last_byte(file, end, size) > end
        result, segment = self._result, scanned.segment
        result.scanned_count += 1
        # The whole segment was durable before the next one began, and that begins where it ends.
        next_offset = listed.last_offset + 1 if listed else following or found_offset
        is_short = has_more or found_offset < next_offset
        if is_short:
            lost = self._lost(found_offset, next_offset)
            self._problem(
                f"{path}: at byte {end}: the records end before the end of the segment{lost}"
            )
        segment.next_offset = next_offset
        info = PartitionSegment(base, next_offset, path, size if has_more else end, True)
        if scanned.is_damaged or is_short:
            result.damaged.append(info)
        result.index_bytes[base] = rebuild_indexes(self._disk, self._paths, segment, is_sealed=True)
        result.sealed.append(info)
        result.next_offset = max(result.next_offset, segment.next_offset)

    def _add_sealed(self, listed: ManifestSegment, path: str) -> None:
        info = PartitionSegment(
            listed.base_offset, listed.last_offset + 1, path, listed.log_bytes, True
        )
        self._result.sealed.append(info)
        self._result.index_bytes[listed.base_offset] = listed.index_bytes
        self._result.next_offset = max(self._result.next_offset, info.next_offset)

    def _has_index(self, listed: ManifestSegment) -> bool:
        """Returns whether both indexes of a segment exist and have good headers.

        The `.idx` must also have the size that the manifest lists. Entries are not checked, because
        readers verify them anyway.
        """
        base = listed.base_offset
        path = self._paths.segment(base, SegmentFile.INDEX)
        time_path = self._paths.segment(base, SegmentFile.TIME_INDEX)
        try:
            with self._disk.open(path) as file, self._disk.open(time_path) as time_file:
                decode_index(file.pread(0, HEADER_BYTES_MAX), path=path, base_offset=base)
                times = time_file.pread(0, HEADER_BYTES_MAX)
                decode_time_index(times, path=time_path, base_offset=base)
                return file.size() == listed.index_bytes
        except (NotFound, Torn, Corrupt):
            return False

    def _note_missing(self, base: int, next_offset: int) -> None:
        """Records the loss of a segment, unless all its messages had been removed before."""
        if next_offset > self._result.start_offset:
            lost = self._lost(base, next_offset)
            self._problem(f"{self._paths.name}: segment {base} is missing{lost}")
            self._record_loss(
                "a segment is missing", base=base, first_offset=base, next_offset=next_offset
            )

    # The active segment.

    def _note_missing_active(self, manifest: PartitionManifest | None, bases: list[int]) -> None:
        """Records the loss of the segment that was active when the manifest was written.

        Does nothing unless that segment is missing and later segments exist. If it was the newest
        segment, `_begin_active` records its loss.
        """
        active = None if manifest is None else manifest.active_base_offset
        following = [base for base in bases if active is not None and base > active]
        if active is not None and active not in bases and following:
            self._note_missing(active, following[0])

    def _recover_active(
        self, base: int, confirmed: DurableEnd | None, checkpoint: Checkpoint | None
    ) -> None:
        result, path = self._result, self._paths.segment(base, SegmentFile.LOG)
        confirmed_end = 0
        if confirmed is not None and confirmed.base_offset == base:
            confirmed_end = confirmed.position
        if checkpoint is not None:
            confirmed_end = max(confirmed_end, checkpoint.position)
            result.checkpoint_end = checkpoint.position
        # After a reboot, bytes that can be read come from the device, so they are durable.
        is_rebooted = confirmed is not None and confirmed.boot_id != self._disk.boot_id()
        result.scanned_count += checkpoint is None
        with self._disk.open(path, writable=True) as file:
            size = file.size()
            scanned = self._scan(
                file, path, base, size, confirmed_end=confirmed_end, checkpoint=checkpoint
            )
            segment, start = scanned.segment, scanned.walked.end
            if not scanned.is_damaged:
                unsure_from = start if is_rebooted else confirmed_end
                self._repair_tail(file, path, base, start, size, unsure_from)
            if scanned.header_error is not None:
                if size > RECORDS_START and (confirmed_end or segment.end > RECORDS_START):
                    self._save_header(file, path, base, scanned.header_error)
                header = encode_log_header(base_offset=base, created_ms=segment.created_ms)
                file.pwrite(0, header)
            file.sync()
        self._disk.sync_folder(self._paths.segments)
        segment.next_offset = max(base, scanned.walked.next_offset)
        first_lost = max(segment.next_offset, result.start_offset)
        if result.next_offset > first_lost:
            self._problem(
                f"{self._paths.name}: offsets {first_lost} to {result.next_offset - 1} "
                "were assigned, but their messages are not in the log"
            )
            if not scanned.is_damaged:
                self._record_loss(
                    "offsets were assigned, but their messages are not in the log",
                    base=base,
                    start=start,
                    first_offset=first_lost,
                    next_offset=result.next_offset,
                )
        result.next_offset = max(result.next_offset, segment.next_offset)
        index_bytes = rebuild_indexes(
            self._disk, self._paths, segment, is_sealed=scanned.is_damaged
        )
        if not scanned.is_damaged:
            result.active = segment
            return
        # Acknowledged messages are damaged: the segment is sealed as it is, and a new one begins.
        info = PartitionSegment(
            base, result.next_offset, path, max(start, confirmed_end), is_sealed=True
        )
        result.sealed.append(info)
        result.damaged.append(info)
        result.index_bytes[base] = index_bytes
        result.checkpoint_end = RECORDS_START
        self._begin_active(None)

    def _repair_tail(
        self, file: File, path: str, base: int, start: int, size: int, unsure_from: int
    ) -> None:
        """Writes the good records before `start` again, and zeros the bytes from `start` on.

        Records before `unsure_from` are known to be durable, and are not written again. If the
        bytes from `start` on contain whole records, these bytes are saved in the quarantine before
        they are zeroed. The caller must sync the file.
        """
        unsure_from = max(unsure_from, RECORDS_START)
        if unsure_from < start:
            # A failed sync may have left these pages in memory, marked clean but not on the
            # device. Write them again, and change the length so that it is synced too.
            for position in range(unsure_from, start, WINDOW_BYTES):
                file.pwrite(position, file.pread(position, min(WINDOW_BYTES, start - position)))
            file.truncate(size + 1)
            file.truncate(size)
        tail_end = last_byte(file, start, size)
        if tail_end == start:
            return
        log = LogBytes(FileBytes(file), path=path, base_offset=0)
        if log.find(start, tail_end, least_offset=0, limit_offset=OFFSET_MAX) is not None:
            saved = self._save(file, path, start, tail_end)
            self._problem(
                f"{path}: at byte {start}: bad bytes with records after them were cut and saved as "
                f"{saved}"
            )
            self._record_loss(
                "bad bytes with records after them, beyond the confirmed durable end, were cut",
                base=base,
                start=start,
                end=tail_end,
                saved=(saved,),
            )
        self._result.torn_bytes += tail_end - start
        file.zero_fill(start, tail_end - start)

    def _save_header(self, file: File, path: str, base: int, error: DataError) -> None:
        """Saves the damaged header of the active log before it is written again."""
        saved = self._save(file, path, 0, RECORDS_START)
        self._record_loss(error.problem, base=base, start=0, end=RECORDS_START, saved=(saved,))

    def _begin_active(self, manifest: PartitionManifest | None) -> None:
        """Creates an empty active segment at the next offset.

        If the newest segment is missing, records the loss first. That is the case if `manifest` is
        given, or if offsets were assigned but no segment is left.
        """
        result = self._result
        if manifest is not None:
            base = manifest.active_base_offset
            lost = self._lost(base, result.next_offset)
            self._problem(f"{self._paths.name}: the newest segment {base} is missing{lost}")
            self._record_loss(
                "the newest segment is missing",
                base=base,
                first_offset=base,
                next_offset=result.next_offset,
            )
        elif not result.sealed and result.next_offset:
            self._problem(f"{self._paths.name}: the manifest and all segments are missing")
            self._record_loss(
                "the manifest and all segments are missing",
                base=0,
                first_offset=0,
                next_offset=result.next_offset,
            )
        result.active = self._new_segment(result.next_offset)
        create_segment(self._disk, self._paths, result.active)

    # Scanning.

    def _scan(
        self,
        file: File,
        path: str,
        base: int,
        size: int,
        *,
        confirmed_end: int | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> _ScannedLog:
        """Walks a log from its checkpoint, or from its beginning, and continues after damage.

        In a sealed segment, bad bytes are damage if good records follow them. In the active segment
        (which has a `confirmed_end`), bad bytes are damage only before that end.
        """
        if checkpoint is None:
            segment = self._new_segment(base)
        else:
            segment = checkpoint.segment(index_stride_bytes=self._stride)
        header_error = self._read_header(file, path, segment)
        is_damaged = header_error is not None and confirmed_end is None
        if is_damaged or (header_error and size > RECORDS_START):
            self._problem(str(header_error))  # in a shorter file the header was never written
        limit = size if confirmed_end is None else confirmed_end

        def on_run(run: Run) -> None:
            segment.skip(run.start - segment.end)
            assert not run.positions[0], "a window of a file must begin at the requested position"
            segment.add(
                positions=run.positions,
                offsets=run.offsets,
                timestamps_ms=run.timestamps_ms,
                size=run.end - run.start,
                next_offset=run.next_offset,
            )
            if base >= self._producers_base:
                _note_producers(self._producers, run, now_ms=self._now_ms)

        log = LogBytes(FileBytes(file), path=path, base_offset=base)
        if checkpoint is None:
            segment.begin_at(log.records_start)
        walked = walk(log, segment.end, size, next_offset=segment.next_offset, on_run=on_run)
        while walked.end < limit:
            end = walked.end
            following = log.find(
                walked.end, size, least_offset=walked.next_offset, limit_offset=OFFSET_MAX
            )
            if following is None and confirmed_end is None:
                break  # the caller knows where the log must end, and reports if it is too short
            is_damaged = True
            self._problem(f"{path}: at byte {end}: the log is damaged")
            if following is None:
                break
            walked = walk(log, following.start, size, next_offset=walked.next_offset, on_run=on_run)
        return _ScannedLog(segment, walked, is_damaged, header_error)

    def _read_header(self, file: File, path: str, segment: ActiveSegment) -> DataError | None:
        """Sets the creation time of the segment to that in the header of its log.

        Returns the error if the header is bad, otherwise None. Raises `UnknownVersion` if a newer
        release wrote the header.
        """
        data = file.pread(0, HEADER_BYTES_MAX)
        try:
            header: LogHeader = decode_log_header(data, path=path, base_offset=segment.base_offset)
        except UnknownVersion:
            raise
        except (Torn, Corrupt) as error:
            return error
        segment.created_ms = header.created_ms
        return None

    def _new_segment(self, base: int) -> ActiveSegment:
        return ActiveSegment(
            base_offset=base,
            created_ms=self._now_ms,
            index_stride_bytes=self._stride,
            next_offset=base,
        )

    def _save(self, file: File, path: str, start: int, end: int) -> str:
        what = f"{path.rpartition('/')[2]}-{start}"
        data = file.pread(start, end - start)
        name = self._paths.saved_name(what, checksum=crc32c(data))
        return save_in_quarantine(self._disk, self._paths.quarantine, name, data)

    def _lost(self, first_offset: int, next_offset: int) -> str:
        """Returns the end of a problem's text: which messages are lost, or "" if none is.

        Messages before the start of the partition had been removed before.
        """
        first_offset = max(first_offset, self._result.start_offset)
        if first_offset >= next_offset:
            return ""
        return f"; offsets {first_offset} to {next_offset - 1} are lost"

    def _record_loss(
        self,
        problem: str,
        *,
        base: int,
        start: int | None = None,
        end: int | None = None,
        first_offset: int = 0,
        next_offset: int = 0,
        saved: tuple[str, ...] = (),
    ) -> None:
        """Records a loss. This must happen before the repair, which would hide the loss.

        Messages before the start of the partition do not count as lost.
        """
        if self._record is None:
            return
        first_offset = max(first_offset, self._result.start_offset)
        has_messages = first_offset < next_offset
        self._record(
            Loss(
                engine=TOPICS,
                name=self._paths.topic,
                partition=self._paths.number,
                path=self._paths.segment(base, SegmentFile.LOG),
                start=start,
                end=end,
                first_offset=first_offset if has_messages else None,
                next_offset=next_offset if has_messages else None,
                problem=problem,
                saved=saved,
            )
        )

    def _problem(self, text: str) -> None:
        self._result.problems.append(text)
        _log.error("%s", text)


def _goes_on_from(checkpoint: Checkpoint, file: File, path: str) -> bool:
    """Returns whether the log is the one that the checkpoint was made of.

    Its creation time must be the same, and a whole record must end where the checkpoint ends.
    Raises `Torn` or `Corrupt` if the header of the log is damaged.
    """
    log = LogBytes(FileBytes(file), path=path, base_offset=checkpoint.base_offset)
    if log.size < checkpoint.position or log.header().created_ms != checkpoint.created_ms:
        return False
    size = checkpoint.position - checkpoint.last_position
    scanned = log.scan(checkpoint.last_position, checkpoint.position, bytes_max=size, count_max=1)
    if isinstance(scanned, Stop):
        return False
    return (scanned.end, scanned.next_offset) == (checkpoint.position, checkpoint.next_offset)


def _note_producers(producers: Producers, run: Run, *, now_ms: int) -> None:
    """Adds the messages of `run`, which are records of a log, to `producers`.

    Records do not store when they were written, so `now_ms` is used as the write time.
    """
    columns = keratin_producers(
        run.buffer,
        run.positions,
        run.offsets,
        run.flags,
        run.header_lengths,
        run.payload_lengths,
    )
    for producer_id, message_count, base_offset, first_sequence, epoch in zip(
        *columns, strict=True
    ):
        producers.add(
            ProducerRun(producer_id, epoch, 0, first_sequence, message_count, base_offset, now_ms)
        )


def recover(
    disk: Disk,
    paths: PartitionPaths,
    *,
    now_ms: int,
    index_stride_bytes: int,
    record: Callable[[Loss], None] | None = None,
) -> RecoveredPartition:
    """Makes the partition ready for writing. The returned state is durable.

    `record` is called with each loss, before the repair that would hide it.
    """
    recovery = Recovery(
        disk, paths, now_ms=now_ms, index_stride_bytes=index_stride_bytes, record=record
    )
    return recovery.run()
