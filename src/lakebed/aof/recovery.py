"""Recovers a log when it is opened for writing: checks its last segments and repairs the tail.

The sealed pointer, `current.sealed`, names the last segment that was sealed; that segment and all
earlier segments are trusted. The later segments, normally at most two, are examined; the newest
segment is always examined. If the pointer is missing or damaged, or the segment that it names is
missing, all segments are examined. A segment that is not sealed may have bytes that were never
confirmed as durable: its good records are made durable, and everything after them is overwritten
with zeros.

- If no valid record follows the bad bytes, they are an unfinished write.
- If good records follow the bad bytes, all bytes from the first bad byte on are first saved in the
  quarantine folder.
- If the bad bytes begin before the confirmed durable end, they are damage. They are saved in the
  quarantine folder, the records are left unchanged, the segment is sealed, and the log continues in
  the next segment.

A segment in the interchange layout was published whole, so it counts as sealed and stays unchanged;
the log continues in the next segment.

Recovery may be interrupted at any point; running it again gives the same result.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lakebed.aof import durable_end
from lakebed.aof.footer import decode_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    RECORDS_START,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    DurableEnd,
    SealedPointer,
    SegmentFooter,
    SegmentHeader,
    next_base_offset,
    records_end_max,
)
from lakebed.aof.interchange import decode_interchange_footer, position_after
from lakebed.aof.interchange_facts import interchange_facts
from lakebed.aof.interchange_segment import is_interchange_file
from lakebed.aof.paths import LogPaths, SegmentName
from lakebed.aof.pointer import FILE_BYTES_MAX, decode_pointer
from lakebed.aof.segment import Segment
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Corrupt, DataError, DiskError, NotFound, UnknownVersion
from lakebed.base.files import (
    Disk,
    File,
    make_folders,
    read_file,
    remove_temporaries,
    replace_atomically,
)
from lakebed.base.units import MIB
from lakebed.kernels import Stop, aof_find, aof_scan, crc64nvme

_log = logging.getLogger(__name__)
WINDOW_BYTES = 4 * MIB


@dataclass
class Recovered:
    """The state of a log after recovery, from which writing starts."""

    sealed: list[SegmentInfo] = field(default_factory=list)
    to_seal: list[Segment] = field(default_factory=list)  # complete, but without a footer
    tail: Segment | None = None  # the segment in which appending continues; None: in a new one
    next_segment_id: int = 0
    next_base_offset: int = 0
    next_record_count: int = 0
    last_timestamp: int = 0
    coordinator_watermark: int = 0
    writer_epoch: int = 1
    torn_bytes: int = 0  # after the good records; they were overwritten with zeros
    problems: list[str] = field(default_factory=list)  # descriptions of the damage that was found


@dataclass(frozen=True)
class FileFacts:
    """Facts about a segment file that are known from other files."""

    confirmed_end: int  # synced at least up to this offset
    is_same_boot: bool  # not rebooted since: bytes may be only in the page cache
    is_open: bool  # appending may continue in it: it is the last and not the pointer's segment
    is_seal_confirmed: bool  # its footer was synced, and is not only in the page cache


@dataclass
class Tail:
    """Totals over the good records of an unsealed segment file."""

    end: int
    record_count: int
    max_timestamp: int
    last_offset: int
    crc64: int
    base_timestamp: int = 0
    ext_id: int = 0


def recover(disk: Disk, paths: LogPaths) -> Recovered:
    """Examines and repairs the files of a log that is being opened for writing.

    Returns the state from which writing starts.
    """
    remove_temporaries(disk, paths.segments)
    names = _segment_names(disk, paths)
    pointer = _load_pointer(disk, paths)
    confirmed = durable_end.load(disk, paths.durable_end)
    result = Recovered()
    if confirmed is not None:
        result.writer_epoch = confirmed.writer_epoch + 1
        result.coordinator_watermark = confirmed.coordinator_watermark
    trusted = -1
    if pointer is not None:
        result.coordinator_watermark = max(
            result.coordinator_watermark, pointer.coordinator_watermark
        )
        if any(name.segment_id == pointer.segment_id for name in names):
            trusted = pointer.segment_id
        else:
            # The manifest log records whether the segment was evicted to a colder tier or lost.
            _log.info("%s is ignored: the segment that it names is missing", paths.pointer)
    for index, name in enumerate(names):
        is_last = index == len(names) - 1
        if name.segment_id < trusted or (name.segment_id == trusted and not is_last):
            end = pointer.durable_bytes if pointer and name.segment_id == trusted else None
            result.sealed.append(_sealed_info(paths, name, end))
            if name.segment_id == trusted:
                result.next_record_count = _record_count_after(
                    disk, paths, names[: index + 1], result
                )
            continue
        confirmed_end = _confirmed_end(confirmed, name)
        if not is_last:
            confirmed_end = names[index + 1].base_offset - next_base_offset(name.base_offset, 0)
        elif pointer is not None and name.segment_id == trusted:
            confirmed_end = pointer.durable_bytes
        is_open = is_last and name.segment_id != trusted
        is_same_boot = confirmed is not None and confirmed.boot_id == disk.boot_id()
        facts = FileFacts(
            confirmed_end,
            is_same_boot=is_same_boot,
            is_open=is_open,
            is_seal_confirmed=name.segment_id == trusted,  # the pointer is written after that sync
        )
        before = names[:index] if name.segment_id == trusted else ()
        _examine(disk, paths, name, facts, result, before=before)
    # Segment numbers are never reused, even if the files are gone.
    if pointer is not None:
        result.next_segment_id = max(result.next_segment_id, pointer.segment_id + 1)
    if confirmed is not None and result.tail is None:
        was_used = confirmed.offset > RECORDS_START
        used_up_to = confirmed.segment_id + was_used
        result.next_segment_id = max(result.next_segment_id, used_up_to)
    if names:
        # A writer that was killed may not have synced the names of its last segments, which records
        # are appended to from now on.
        disk.sync_folder(paths.segments)
    return result


def _record_count_after(
    disk: Disk, paths: LogPaths, names: Sequence[SegmentName], result: Recovered
) -> int:
    """Returns the number of records in the log up to the end of the last of these sealed segments.

    Interchange segments have only the count of their own records, which is added to that of the
    runtime segment before them; an interchange segment without a footer counts as empty. If a
    segment is too damaged to find the number or cannot be read, returns 0 and adds a problem to
    `result`.
    """
    count = 0
    try:
        for name in reversed(names):
            path = paths.segment(name)
            with disk.open(path) as file:
                if not is_interchange_file(file):
                    return count + _record_count_after_runtime(file, path, name)
                footer = decode_interchange_footer(memoryview(file.pread(0, file.size())))
            count += 0 if footer is None else footer.record_count
    except UnknownVersion:
        raise
    except (DataError, DiskError) as error:
        result.problems.append(f"{error}; so the number of records in the log is unknown")
        return 0
    return count


def _record_count_after_runtime(file: File, path: str, name: SegmentName) -> int:
    """Returns the number of records in the log up to the end of a sealed runtime segment.

    Raises `DataError` if the segment is too damaged to find the number.
    """
    footer = read_footer(file, path, name)
    if footer is not None:
        return footer.base_record_count + footer.record_count
    size = file.size()
    header = _read_header(file, path, name, size)
    if header is None:
        raise Corrupt("the segment has neither a header nor a valid footer", path=path)
    tail = _tail_around_damage(file, records_end_max(size), _last_byte(file, 0, size))
    return header.base_record_count + tail.record_count


def _segment_names(disk: Disk, paths: LogPaths) -> list[SegmentName]:
    parsed = [SegmentName.parse(name) for name in disk.names(paths.segments)]
    names = sorted(name for name in parsed if name is not None)
    for name, following in pairwise(names):
        if name.segment_id == following.segment_id:
            raise Corrupt("another file has the same segment number", path=paths.segment(following))
    return names


def _load_pointer(disk: Disk, paths: LogPaths) -> SealedPointer | None:
    try:
        data = read_file(disk, paths.pointer, size_max=FILE_BYTES_MAX)
        return decode_pointer(data, path=paths.pointer)
    except NotFound:
        return None
    except UnknownVersion:
        raise
    except DataError as error:
        _log.warning("the sealed pointer is unreadable and ignored: %s", error)
        return None


def _sealed_info(paths: LogPaths, name: SegmentName, end: int | None) -> SegmentInfo:
    return SegmentInfo(
        segment_id=name.segment_id,
        base_offset=name.base_offset,
        created_at=name.created_at,
        path=paths.segment(name),
        is_sealed=True,
        end=end,
    )


def _examine(
    disk: Disk,
    paths: LogPaths,
    name: SegmentName,
    facts: FileFacts,
    result: Recovered,
    *,
    before: Sequence[SegmentName],
) -> None:
    """Recovers one segment file and adds it to `result`.

    `before` has the previous segments, whose record count is needed if this segment has no footer;
    empty if the previous segment was examined too, or if there is none.
    """
    path = paths.segment(name)
    with disk.open(path, writable=True) as file:
        size = file.size()
        if before and read_footer(file, path, name) is None:
            result.next_record_count = _record_count_after(disk, paths, before, result)
        if is_interchange_file(file):
            _keep_interchange(paths, file, name, facts, result)
            return
        if size < RECORDS_START + FOOTER_BYTES:
            # Readers of this segment will report the damage; the log continues after it.
            result.problems.append(f"{path}: the file is too short for a segment: {size} bytes")
            result.sealed.append(_sealed_info(paths, name, None))
            end = max(size, facts.confirmed_end)
            _follow(result, name, end=end, record_count=result.next_record_count, timestamp=0)
            return
        refuse_newer(file, path)
        footer = read_footer(file, path, name)
        if footer is not None:
            if not facts.is_seal_confirmed:
                _rewrite(file, size - FOOTER_BYTES, size)
                file.sync()
            result.sealed.append(_sealed_info(paths, name, footer.durable_bytes))
            result.coordinator_watermark = max(
                result.coordinator_watermark, footer.coordinator_watermark
            )
            _follow(
                result,
                name,
                end=footer.durable_bytes,
                record_count=footer.base_record_count + footer.record_count,
                timestamp=footer.last_timestamp,
            )
            return
        segment = _recover_tail(disk, paths, file, name, size, facts, result)
    _follow(
        result,
        name,
        end=segment.end,
        record_count=segment.base_record_count + segment.record_count,
        timestamp=segment.max_timestamp,
    )
    if facts.is_open and not segment.flush_failure:
        result.tail = segment
    else:
        result.to_seal.append(segment)


def _keep_interchange(
    paths: LogPaths, file: File, name: SegmentName, facts: FileFacts, result: Recovered
) -> None:
    """Adds a segment in the interchange layout to `result`, and leaves its bytes unchanged.

    Raises `UnknownVersion` if the segment has an unsupported version.
    """
    path, size = paths.segment(name), file.size()
    data = memoryview(file.pread(0, size))
    try:
        ranges = interchange_facts(data, name).records.good_ranges
    except UnknownVersion as error:
        raise UnknownVersion(
            error.problem, path=path, expected=error.expected, found=error.found
        ) from None
    if not facts.is_seal_confirmed:
        _rewrite(file, 0, size)
        file.sync()
    end = max(RECORDS_START, facts.confirmed_end)
    if ranges:
        last_offset = ranges[-1].last_offset
        end = max(end, position_after(data, last_offset, base_offset=name.base_offset))
    result.sealed.append(_sealed_info(paths, name, None))
    _follow(
        result,
        name,
        end=end,
        record_count=result.next_record_count + sum(good.record_count for good in ranges),
        timestamp=max((good.max_timestamp_ns for good in ranges), default=0),
    )


def _follow(
    result: Recovered, name: SegmentName, *, end: int, record_count: int, timestamp: int
) -> None:
    result.next_segment_id = name.segment_id + 1
    result.next_base_offset = next_base_offset(name.base_offset, end)
    result.next_record_count = record_count
    result.last_timestamp = max(result.last_timestamp, timestamp)


def read_footer(file: File, path: str, name: SegmentName) -> SegmentFooter | None:
    """Returns the segment's footer, or None if it is missing, damaged or of another segment.

    Raises `UnknownVersion` if the footer has an unsupported version.
    """
    size = file.size()
    if size < RECORDS_START + FOOTER_BYTES:
        return None  # too short for a segment
    try:
        footer = decode_footer(file.pread(size - FOOTER_BYTES, FOOTER_BYTES))
    except UnknownVersion as error:
        raise UnknownVersion(
            error.problem, path=path, expected=error.expected, found=error.found
        ) from None
    except DataError:
        return None
    return footer if footer and footer.segment_index == name.segment_id else None


def refuse_newer(file: File, path: str) -> None:
    """Raises `UnknownVersion` if a newer version wrote the segment.

    This must be checked before the records, because a newer version's records would look damaged.
    """
    header = SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size))
    if header.magic == SEGMENT_MAGIC and header.version > SEGMENT_VERSION:
        raise UnknownVersion(
            "the segment was written by a newer version of Lakebed: "
            "use that version or a newer one",
            path=path,
            offset=SEGMENT_HEADER.offset_of("version"),
            expected=SEGMENT_VERSION,
            found=header.version,
        )


def _read_header(file: File, path: str, name: SegmentName, size: int) -> SegmentHeader | None:
    """Returns the header, or None if all its bytes are zero, as before the first record is written.

    Raises `Corrupt` if the header does not match the segment's name and length.
    """
    data = file.pread(0, SEGMENT_HEADER.size)
    if not any(data):
        return None
    header = SEGMENT_HEADER.unpack(data)
    expected = (SEGMENT_MAGIC, SEGMENT_VERSION, SEGMENT_HEADER.size, *name, size)
    actual = (
        header.magic,
        header.version,
        header.header_length,
        header.segment_index,
        header.base_offset,
        header.created_at,
        header.max_size,
    )
    if expected != actual:
        raise Corrupt(
            "the header does not match the file's name and length",
            path=path,
            expected=expected,
            found=actual,
        )
    return header


def _recover_tail(
    disk: Disk,
    paths: LogPaths,
    file: File,
    name: SegmentName,
    size: int,
    facts: FileFacts,
    result: Recovered,
) -> Segment:
    """Makes the good records of an unsealed segment durable and zeroes the bytes after them.

    If bytes that were confirmed as durable are damaged, leaves the records unchanged instead, and
    saves the damaged bytes and all later bytes in the quarantine folder.
    """
    path = paths.segment(name)
    region_end = records_end_max(size)
    segment = Segment(name, size=size, base_record_count=result.next_record_count)
    segment.is_on_disk = True
    tail = scan_tail(file, region_end)
    start = tail.end if tail.record_count else 0
    content_end = _last_byte(file, start, size)
    is_damaged = start < facts.confirmed_end
    if is_damaged or (content_end > start and _has_records(file, start, content_end)):
        saved = _quarantine(disk, paths, file, name, start, content_end)
        problem = f"{path}: at byte {start}: damaged bytes; saved from there on as {saved}"
        result.problems.append(problem)
        _log.error("%s", problem)
    if is_damaged:
        # Acknowledged bytes are damaged: the records stay unchanged and the log continues after it.
        tail = _tail_around_damage(file, region_end, content_end)
        segment.flush_failure = True
    else:
        _rewrite(file, facts.confirmed_end if facts.is_same_boot else start, start)
        if content_end > start:
            result.torn_bytes += content_end - start
            file.zero_fill(start, content_end - start)
    _count_in(segment, tail)
    if tail.record_count:
        _check_header(file, path, segment, result)
    file.sync()
    segment.durable = segment.end if tail.record_count or is_damaged else 0
    return segment


def _check_header(file: File, path: str, segment: Segment, result: Recovered) -> None:
    """Copies the base record count and first record's fields from the header into `segment`.

    If the header is missing or does not match the file's name and length, it is written again.
    """
    try:
        header = _read_header(file, path, segment.name, segment.size)
    except Corrupt as error:
        header = None
        result.problems.append(str(error))
        _log.error("%s; the header was rewritten", error)
    if header is not None:
        segment.base_record_count = header.base_record_count
        segment.base_timestamp, segment.ext_id = header.base_timestamp, header.ext_id
    else:
        file.pwrite(0, segment.header())


def _count_in(segment: Segment, tail: Tail) -> None:
    segment.record_count = tail.record_count
    segment.end = tail.end
    segment.max_timestamp = tail.max_timestamp
    segment.crc64 = tail.crc64
    segment.base_timestamp, segment.ext_id = tail.base_timestamp, tail.ext_id
    if tail.record_count:
        segment.last_record_id = segment.position(tail.last_offset)


def _confirmed_end(confirmed: DurableEnd | None, name: SegmentName) -> int:
    """Returns the offset up to which the file is known to be synced; 0 if that is unknown."""
    if confirmed is None or confirmed.segment_id != name.segment_id:
        return 0
    return confirmed.offset if confirmed.offset > RECORDS_START else 0


def scan_tail(file: File, region_end: int, start: int = RECORDS_START) -> Tail:
    """Reads the records from `start` up to the first bad record, and returns their totals."""
    tail = Tail(start, 0, 0, 0, 0)
    window = WINDOW_BYTES
    while tail.end < region_end:
        data = file.pread(tail.end, min(window, region_end - tail.end))
        scan = aof_scan(data, 0, len(data), count_max=len(data))
        count = len(scan.offsets)
        if count:
            if not tail.record_count:
                tail.base_timestamp, tail.ext_id = scan.timestamps[0], scan.ext_ids[0]
            tail.record_count += count
            tail.max_timestamp = max(tail.max_timestamp, *scan.timestamps)
            tail.last_offset = tail.end + scan.offsets[count - 1]
            tail.crc64 = crc64nvme(memoryview(data)[: scan.end], tail.crc64)
            tail.end += scan.end
        elif scan.stop is Stop.CUT and tail.end + len(data) < region_end:
            window *= 2  # one record is longer than the window
            continue
        else:
            return tail
        if scan.stop is not Stop.CUT and scan.end < len(data):
            return tail
    return tail


def _tail_around_damage(file: File, region_end: int, content_end: int) -> Tail:
    """Returns the totals of all good records of a damaged file, including those after damage."""
    data = file.pread(0, min(region_end, content_end + SEGMENT_HEADER.size))
    total = Tail(RECORDS_START, 0, 0, 0, 0)
    position = RECORDS_START
    while position >= 0:
        scan = aof_scan(data, position, len(data), count_max=len(data))
        count = len(scan.offsets)
        if count:
            if not total.record_count:
                total.base_timestamp, total.ext_id = scan.timestamps[0], scan.ext_ids[0]
            total.record_count += count
            total.max_timestamp = max(total.max_timestamp, *scan.timestamps)
            total.last_offset = scan.offsets[count - 1]
            total.end = scan.end
        position = aof_find(data, scan.end, len(data))
    total.crc64 = crc64nvme(memoryview(data)[RECORDS_START : total.end])
    return total


def _last_byte(file: File, start: int, end: int) -> int:
    """Returns the offset after the last non-zero byte of `[start, end)`.

    Returns `start` if all bytes are zero.
    """
    for window_end in range(end, start, -WINDOW_BYTES):
        window_start = max(start, window_end - WINDOW_BYTES)
        data = file.pread(window_start, window_end - window_start)
        length = len(data.rstrip(b"\0"))
        if length:
            return window_start + length
    return start


def _has_records(file: File, start: int, end: int) -> bool:
    data = file.pread(start, end - start + SEGMENT_HEADER.size)
    return aof_find(data, 0, len(data)) >= 0


def _rewrite(file: File, start: int, end: int) -> None:
    """Reads the bytes of `[start, end)` and writes them again, so that the next sync covers them.

    After a failed sync, the bytes may be only in the page cache and no longer marked as modified.
    """
    for position in range(start, end, WINDOW_BYTES):
        data = file.pread(position, min(WINDOW_BYTES, end - position))
        file.pwrite(position, data)


def _quarantine(
    disk: Disk, paths: LogPaths, file: File, name: SegmentName, start: int, end: int
) -> str:
    """Saves the bytes of `[start, end)` in the quarantine folder, and returns the new file's path.

    If recovery is interrupted and runs again, it replaces the same file.
    """
    make_folders(disk, paths.quarantine)
    target = f"{paths.quarantine}/aof-{paths.name}-{name.segment_id:020}-{start}.bin"
    replace_atomically(disk, target, file.pread(start, max(0, end - start)))
    return target
