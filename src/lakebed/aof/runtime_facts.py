"""Collects what a runtime segment contains, and what is damaged or inconsistent in it.

The header has no checksum: its fields are compared with the file's name and length and with the
footer. Its base timestamp is not checked, and padding that is not zero is only noted.
"""

from __future__ import annotations

from lakebed.aof.footer import decode_footer
from lakebed.aof.format import (
    AOF_ALIGNMENT,
    FOOTER_BYTES,
    RECORDS_START,
    SEGMENT_FOOTER,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    SegmentFooter,
    SegmentHeader,
    records_end_max,
)
from lakebed.aof.inspection import SegmentLayout
from lakebed.aof.paths import SegmentName
from lakebed.aof.record_id import SEGMENT_OFFSET_MAX, RecordId
from lakebed.aof.segment_facts import SegmentFacts, mismatches
from lakebed.aof.survey import Damage, RuntimeWalker, Survey, survey
from lakebed.base.damage import end_of_bytes
from lakebed.base.errors import DataError, UnknownVersion
from lakebed.kernels import crc64nvme


def runtime_facts(view: memoryview, name: SegmentName | None) -> SegmentFacts:
    """Checks a whole file and returns what it contains and what is wrong with it.

    The header is compared with the file's length and, if given, its name; the records' checksums
    are verified; and the footer is compared with the header and the records. Raises
    `UnknownVersion` if the header or the footer has an unsupported version.
    """
    header = _runtime_header(view)
    problems = _header_problems(header, name, len(view))
    if len(view) < RECORDS_START + FOOTER_BYTES:
        short = Damage(len(view), 0, "the file is too short for a segment")
        return SegmentFacts(SegmentLayout.RUNTIME, header, problems=(*problems, short))
    footer, footer_problem = runtime_footer(view)
    end_max = records_end_max(len(view))
    end = end_max
    notes: list[str] = []
    if footer is not None and _is_record_boundary(footer.durable_bytes, end_max):
        end = footer.durable_bytes
        if end_of_bytes(view, end, end_max) > end:
            notes.append(f"there are non-zero bytes between offset {end} and the footer")
    records = survey(RuntimeWalker(), view, RECORDS_START, end)
    if footer is not None:
        problems += _seal_problems(view, header, footer, name, records)
    elif header is None and records.good_ranges:
        problems += (Damage(0, SEGMENT_HEADER.size, "the segment has records but no header"),)
    if header is not None and not SEGMENT_HEADER.padding_is_zero(view):
        notes.append("the header's padding is not zero")
    return SegmentFacts(
        SegmentLayout.RUNTIME,
        header,
        footer,
        footer_problem,
        is_sealed=footer is not None,
        records=records,
        problems=problems,
        notes=tuple(notes),
    )


def _runtime_header(view: memoryview) -> SegmentHeader | None:
    """Returns the header, or None if it is all zero or the file is too short.

    A header with a wrong magic is returned too. Raises `UnknownVersion` if the magic is right but
    the version is not supported.
    """
    if len(view) < SEGMENT_HEADER.size or not any(view[: SEGMENT_HEADER.size]):
        return None
    header = SEGMENT_HEADER.unpack(view)
    if header.magic == SEGMENT_MAGIC and header.version != SEGMENT_VERSION:
        raise UnknownVersion(
            "the segment has an unsupported version",
            offset=SEGMENT_HEADER.offset_of("version"),
            expected=SEGMENT_VERSION,
            found=header.version,
        )
    return header


def runtime_footer(view: memoryview) -> tuple[SegmentFooter | None, str | None]:
    """Returns `(footer, None)`, or `(None, problem)` if the footer is damaged.

    Returns `(None, None)` if the footer's bytes are all zero, as in a segment that is not sealed.
    Raises `UnknownVersion` if the footer has an unsupported version.
    """
    try:
        return decode_footer(view[records_end_max(len(view)) :]), None
    except UnknownVersion:
        raise
    except DataError as error:
        return None, str(error)


def _header_problems(
    header: SegmentHeader | None, name: SegmentName | None, file_bytes: int
) -> tuple[Damage, ...]:
    if header is None:
        return ()
    expected: dict[str, object] = {
        "magic": SEGMENT_MAGIC,
        "version": SEGMENT_VERSION,
        "header_length": SEGMENT_HEADER.size,
        "max_size": file_bytes,
    }
    if name is not None:
        expected |= {
            "segment_index": name.segment_id,
            "base_offset": name.base_offset,
            "created_at": name.created_at,
        }
    return mismatches(SEGMENT_HEADER, header, expected, start=0)


def _seal_problems(
    view: memoryview,
    header: SegmentHeader | None,
    footer: SegmentFooter,
    name: SegmentName | None,
    records: Survey,
) -> tuple[Damage, ...]:
    """Returns a `Damage` for each wrong field of a footer, compared with the header and records.

    Also returns a `Damage` if the segment has records but its header is all zero.
    """
    last = records.good_ranges[-1] if records.good_ranges else None
    max_timestamp = max((good.max_timestamp_ns for good in records.good_ranges), default=0)
    expected: dict[str, object] = {
        "reserved": 0,
        "durable_bytes": last.end if last else RECORDS_START,
        "record_count": sum(good.record_count for good in records.good_ranges),
        "last_timestamp": max_timestamp,
        "last_record_id": _packed(footer.segment_index, last.last_offset) if last else 0,
    }
    if header is not None:
        expected["segment_index"] = header.segment_index
        expected["base_record_count"] = header.base_record_count
        expected["ext_id"] = header.ext_id
    elif name is not None:
        expected["segment_index"] = name.segment_id
    footer_at = records_end_max(len(view))
    if _is_record_boundary(footer.durable_bytes, footer_at):
        expected["payload_checksum"] = crc64nvme(view[RECORDS_START : footer.durable_bytes])
    problems = mismatches(SEGMENT_FOOTER, footer, expected, start=footer_at)
    if header is None and records.good_ranges:
        problems += (
            Damage(0, SEGMENT_HEADER.size, "the segment is sealed but its header is all zero"),
        )
    return problems


def _is_record_boundary(offset: int, end_max: int) -> bool:
    return RECORDS_START <= offset <= end_max and offset % AOF_ALIGNMENT == 0


def _packed(segment_index: int, offset: int) -> int | None:
    """Returns a record's id as a number, or None if the offset is too large for an id."""
    if offset > SEGMENT_OFFSET_MAX:
        return None
    return int(RecordId.from_parts(segment_index, offset))
