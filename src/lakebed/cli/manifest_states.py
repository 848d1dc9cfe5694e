"""The report of `lakebed manifest state`: the recorded state of segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.replay import ReplayResult
from lakebed.aof.manifest.state import Condition, Failures, Pending, Residency, SegmentState
from lakebed.api.read_surface import ReadableManifestLog
from lakebed.cli.manifest_text import crc_text, flag_names, moment_columns, reason_text, time_text
from lakebed.cli.report import Column, counted
from lakebed.cli.values import size_text, tiers_text

_TIERS = {0: Residency.TIER0, 1: Residency.TIER1, 2: Residency.TIER2}


class TierTotal(NamedTuple):
    """The number of segments and bytes in one tier."""

    segments: int
    bytes: int


def problems_of(manifest: ReadableManifestLog, replayed: ReplayResult) -> list[str]:
    """Returns the problems of the manifest log that may make the shown state wrong, as text."""
    problems = [] if manifest.damage is None else [manifest.damage]
    problems += replayed.problems
    for damage in replayed.damages:
        if damage.segment_ids:
            named = ", ".join(map(str, sorted(damage.segment_ids)))
            problems.append(
                f"chunk {damage.chunk_index} is damaged and left out; it was about segments {named}"
            )
    return problems


def totals_of(index: ManifestIndex) -> dict[str, object]:
    return {
        "segments": len(index),
        "sealed": sum(state.is_sealed for state in index.segments()),
        "pending": sum(1 for _ in index.pending()),
        "coordinator_watermark": index.coordinator_watermark,
        "records": index.record_count,
        **{f"tier{tier}": tier_total(index, tier) for tier in _TIERS},
    }


def totals_text(index: ManifestIndex) -> Iterable[str]:
    totals = totals_of(index)
    yield (
        f"{counted(len(index), 'segment')}, {totals['sealed']} sealed, "
        f"{totals['pending']} with work pending, watermark {index.coordinator_watermark}, "
        f"{counted(index.record_count, 'record')}"
    )
    for tier in _TIERS:
        total = tier_total(index, tier)
        if total.segments:
            yield f"tier {tier}: {counted(total.segments, 'segment')}, {size_text(total.bytes)}"


def tier_total(index: ManifestIndex, tier: int) -> TierTotal:
    states = list(index.iter_residency(_TIERS[tier]))
    sizes = [state.compressed_bytes if tier else state.resident_bytes for state in states]
    return TierTotal(len(states), sum(sizes))


def tiers_of(state: SegmentState) -> list[int]:
    return [tier for tier, flag in _TIERS.items() if state.residency & flag]


def condition_words(state: SegmentState) -> list[str]:
    """Returns `not opened`, `open` or `sealed`, and any further conditions of a segment."""
    names = flag_names(state.condition, Condition)
    first = "not opened" if not state.is_opened else "sealed" if state.is_sealed else "open"
    return [first, *(name for name in names if name not in ("opened", "sealed"))]


def _failure_words(state: SegmentState) -> list[str]:
    reasons = {
        Failures.COMPRESSION: state.compression_reason,
        Failures.UPLOAD: state.upload_reason,
        Failures.HYDRATION: state.hydration_reason,
    }
    failed = [(flag, code) for flag, code in reasons.items() if state.failures & flag]
    return [f"{str(flag.name).lower()}: {reason_text(code)}" for flag, code in failed]


def _if_sealed(field: str, heading: str) -> Column:
    """Returns a column of the table; its cell is `-` until the segment is sealed."""
    return Column("", lambda state: getattr(state, field) if state.is_sealed else None, heading)


STATES = (
    Column("segment_id", heading="segment"),
    Column("tiers", tiers_of, "tiers", tiers_text),
    Column("condition", lambda state: flag_names(state.condition, Condition)),
    Column("", condition_words, "condition"),
    Column("pending", lambda state: flag_names(state.pending, Pending)),
    Column("failures", _failure_words),
    Column("base_offset", heading="base offset"),
    Column("durable_bytes"),
    _if_sealed("durable_bytes", "durable"),
    Column("resident_bytes"),
    Column("compressed_bytes"),
    Column("", lambda state: state.compressed_bytes or None, "compressed"),
    Column("segment_crc64", json=crc_text),
    Column("ext_id"),
    _if_sealed("ext_id", "ext id"),
    Column("coordinator_watermark"),
    _if_sealed("coordinator_watermark", "watermark"),
    Column("epoch"),
    Column("job_id"),
    Column("dictionary_id"),
    Column("hydration_source"),
    Column("object_key", lambda state: state.key or None),
    Column("etag", lambda state: state.etag or None),
    Column("upload_key", lambda state: state.upload_key or None),
    *moment_columns("opened_at", lambda state: state.opened_at_ms),
    *moment_columns("sealed_at", lambda state: state.sealed_at_ms),
    *moment_columns("changed_at", lambda state: state.changed_at_ms),
    Column("", lambda state: flag_names(state.pending, Pending), "pending"),
    Column("", _failure_words, "failures"),
    Column("", "changed_at_ms", "changed", time_text),
    Column("", lambda state: state.key or None, "object key"),
)
