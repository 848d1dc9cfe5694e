"""Collects what an interchange segment contains, and what is damaged or inconsistent in it.

Header, records, footer and file name are compared with each other.
"""

from __future__ import annotations

from lakebed.aof.inspection import SegmentLayout
from lakebed.aof.interchange import (
    INTERCHANGE_FOOTER,
    INTERCHANGE_HEADER,
    INTERCHANGE_MAGIC,
    FooterFlags,
    InterchangeFooter,
    InterchangeHeader,
    decode_interchange_footer,
    decode_interchange_header,
)
from lakebed.aof.paths import SegmentName
from lakebed.aof.segment_facts import SegmentFacts, mismatches
from lakebed.aof.survey import Damage, InterchangeWalker, Survey, survey
from lakebed.kernels import crc64nvme

_NS_PER_MS = 1_000_000


def interchange_facts(view: memoryview, name: SegmentName | None) -> SegmentFacts:
    """Checks a whole file and returns what it contains and what is wrong with it.

    The header is compared with the file's name, if that is given; the records' checksums are
    verified; and the footer is compared with the records. Raises `UnknownVersion` if the segment
    has an unsupported version.
    """
    header = INTERCHANGE_HEADER.unpack(view)
    if header.magic == INTERCHANGE_MAGIC:
        header = decode_interchange_header(view)
    footer = decode_interchange_footer(view)
    end = footer.durable_bytes if footer else len(view)
    walker = InterchangeWalker(base_offset=name.base_offset if name else None)
    records = survey(walker, view, INTERCHANGE_HEADER.size, end)
    problems = _interchange_header_problems(header, name)
    if walker.unordered_at is not None:
        problems += (Damage(walker.unordered_at, 0, "the logical offsets do not rise"),)
    notes: list[str] = []
    if footer is None:
        # Files of this layout are published whole, so the end of this one is missing or damaged.
        records = _with_tail(records, len(view))
        footer_problem = "the file does not end with a footer"
    else:
        footer_problem = None
        problems += _interchange_footer_problems(view, footer, records)
        if footer.flags & ~int(FooterFlags.SEALED | FooterFlags.COMPACTED | FooterFlags.PARTIAL):
            notes.append(f"unknown flags in the footer: {footer.flags:#x}")
    if any(header.reserved):
        notes.append("the header's reserved bytes are not zero")
    return SegmentFacts(
        SegmentLayout.INTERCHANGE,
        header,
        footer,
        footer_problem,
        is_sealed=footer is not None and bool(footer.flags & FooterFlags.SEALED),
        records=records,
        problems=problems,
        notes=tuple(notes),
    )


def _interchange_header_problems(
    header: InterchangeHeader, name: SegmentName | None
) -> tuple[Damage, ...]:
    expected: dict[str, object] = {"magic": INTERCHANGE_MAGIC}
    if name is not None:
        expected["segment_id"] = name.segment_id
        expected["creation_ts_ms"] = name.created_at // _NS_PER_MS
    return mismatches(INTERCHANGE_HEADER, header, expected, start=0)


def _interchange_footer_problems(
    view: memoryview, footer: InterchangeFooter, records: Survey
) -> tuple[Damage, ...]:
    last = records.good_ranges[-1] if records.good_ranges else None
    expected: dict[str, object] = {
        "record_count": sum(good.record_count for good in records.good_ranges),
        "durable_bytes": last.end if last else INTERCHANGE_HEADER.size,
        "segment_crc64": crc64nvme(view[: footer.durable_bytes]),
    }
    return mismatches(INTERCHANGE_FOOTER, footer, expected, start=footer.durable_bytes)


def _with_tail(records: Survey, file_bytes: int) -> Survey:
    """Adds a damaged tail to the survey of a file without a footer, if the survey has none.

    The tail extends from the end of the last good record to the end of the file, and may be empty.
    """
    if records.tail is not None:
        return records
    end = records.good_ranges[-1].end if records.good_ranges else INTERCHANGE_HEADER.size
    return records._replace(tail=Damage(end, max(0, file_bytes - end), "the footer is missing"))
