"""Inspects one segment file of either layout, without changing it.

- Sealed: header, name, footer, every record and the checksum over all records must match. Any
  mismatch means that the file is corrupt.
- Not sealed: bytes other than zeros after the last good record are torn. Bad bytes followed by good
  records are corrupt, and so are bad bytes below the confirmed end.
- If the bytes where the footer should be are neither zeros nor a valid footer, the file counts as
  not sealed and `footer_problem` gives the reason. An interchange file is always written with its
  footer, so an interchange file without a footer is torn.
- A runtime file has its full length from its creation, so a file that is shorter than its header
  states has lost bytes and is corrupt. A file too short for a header is torn.
- A file with an unsupported version is not inspected: `UnknownVersion` is raised.

If the magic in the header is damaged, the layout is recognised by the footer or the first record,
so that the records stay readable.
"""

from __future__ import annotations

from lakebed.aof.format import FOOTER_BYTES, RECORDS_START, SEGMENT_HEADER, SEGMENT_MAGIC
from lakebed.aof.inspection import Inspection, SegmentLayout, Verdict
from lakebed.aof.interchange import INTERCHANGE_HEADER, INTERCHANGE_MAGIC
from lakebed.aof.interchange_facts import interchange_facts
from lakebed.aof.paths import SegmentName
from lakebed.aof.runtime_facts import runtime_facts, runtime_footer
from lakebed.aof.segment_facts import SegmentFacts
from lakebed.aof.survey import (
    Damage,
    GoodRange,
    InterchangeWalker,
    RuntimeWalker,
    Survey,
)
from lakebed.base.damage import end_of_bytes
from lakebed.base.layout import Buffer
from lakebed.kernels import crc64nvme


def inspect_segment(
    data: Buffer, *, name: SegmentName | None, confirmed: int | None = None
) -> Inspection:
    """Inspects the bytes of a segment file.

    `confirmed` is the file offset up to which records are known to be durable, if that is known.
    """
    view = memoryview(data).cast("B")
    layout = _layout(view)
    if layout is SegmentLayout.RUNTIME:
        return _judge(view, runtime_facts(view, name), RECORDS_START, confirmed)
    if layout is SegmentLayout.INTERCHANGE:
        return _judge(view, interchange_facts(view, name), INTERCHANGE_HEADER.size, confirmed)
    return _judge(view, SegmentFacts(layout), RECORDS_START, confirmed)


def _layout(view: memoryview) -> SegmentLayout:
    """Returns the layout of a segment file according to its magic number.

    If that is damaged, recognises the layout by the footer or the first record. Returns `RUNTIME`
    for a file that begins with 64 zero bytes, `EMPTY` if all bytes are zero, and `UNKNOWN` if the
    layout cannot be recognised.
    """
    if len(view) >= SEGMENT_HEADER.size and SEGMENT_HEADER.unpack(view).magic == SEGMENT_MAGIC:
        return SegmentLayout.RUNTIME
    is_long = len(view) >= INTERCHANGE_HEADER.size
    if is_long and INTERCHANGE_HEADER.unpack(view).magic == INTERCHANGE_MAGIC:
        return SegmentLayout.INTERCHANGE
    if end_of_bytes(view, 0, len(view)) == 0:
        return SegmentLayout.EMPTY
    if not any(view[: SEGMENT_HEADER.size]) or _has_runtime_parts(view):
        return SegmentLayout.RUNTIME
    walker = InterchangeWalker(base_offset=None)
    if is_long and walker.walk(view, INTERCHANGE_HEADER.size, len(view))[0].record_count:
        return SegmentLayout.INTERCHANGE
    return SegmentLayout.UNKNOWN


def _has_runtime_parts(view: memoryview) -> bool:
    if len(view) < RECORDS_START + FOOTER_BYTES:
        return False
    footer, _ = runtime_footer(view)
    if footer is not None:
        return True
    return RuntimeWalker().walk(view, RECORDS_START, len(view))[0].record_count > 0


def _judge(
    view: memoryview, facts: SegmentFacts, records_start: int, confirmed: int | None
) -> Inspection:
    first = _leading_range(facts.records, min(records_start, len(view)))
    tail = facts.records.tail or _shapeless(view, facts.layout)
    is_lost = confirmed is not None and first.end < confirmed
    if is_lost and tail is None and not facts.records.damages:
        tail = Damage(first.end, 0, f"the records end before the durable end, {confirmed}")
    is_corrupt = (
        bool(facts.records.damages or facts.problems)
        or is_lost
        or (facts.footer is not None and tail is not None)
        or (facts.layout is SegmentLayout.UNKNOWN and len(view) >= SEGMENT_HEADER.size)
    )
    return Inspection(
        layout=facts.layout,
        verdict=Verdict.CORRUPT if is_corrupt else Verdict.TORN if tail else Verdict.WHOLE,
        is_sealed=facts.is_sealed,
        header=facts.header,
        footer=facts.footer,
        footer_problem=facts.footer_problem,
        record_count=first.record_count,
        end=first.end,
        last_offset=first.last_offset if first.record_count else None,
        last_timestamp_ns=first.last_timestamp_ns,
        max_timestamp_ns=first.max_timestamp_ns,
        payload_crc64=crc64nvme(view[records_start : first.end]),
        good_ranges=facts.records.good_ranges,
        damages=facts.records.damages,
        tail=tail,
        problems=facts.problems,
        notes=facts.notes,
    )


def _shapeless(view: memoryview, layout: SegmentLayout) -> Damage | None:
    """Returns a `Damage` that covers the whole file if no segment can be recognised in it.

    That is the case if its layout is unknown or if it is too short for a header. Otherwise returns
    None.
    """
    if layout is SegmentLayout.UNKNOWN:
        return Damage(0, len(view), "not a segment: neither the magic nor a record is recognised")
    if layout is SegmentLayout.EMPTY and len(view) < SEGMENT_HEADER.size:
        return Damage(0, len(view), "the file is too short for a header")
    return None


def _leading_range(records: Survey, start: int) -> GoodRange:
    """Returns the range of the good records before the first damage, which may be empty."""
    if records.good_ranges and records.good_ranges[0].start == start:
        return records.good_ranges[0]
    return GoodRange(start, start, 0, 0, 0, 0)
