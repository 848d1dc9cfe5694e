"""What `lakebed manifest state` and `history` print: the same facts as lines, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.replay import ReplayResult
from lakebed.aof.manifest.state import Condition, Failures, Pending, Residency, SegmentState
from lakebed.api.read_surface import ReadableManifestLog
from lakebed.cli.manifest_tables import DAMAGE_MARK, about, about_line, entry_document
from lakebed.cli.manifest_words import (
    crc_text,
    duration_text,
    flag_names,
    reason_text,
    record_words,
    size_text,
    time_document,
    time_text,
    words_or_dash,
)
from lakebed.cli.output import counted, table
from lakebed.store.manifest_moments import RecordedHistory, Step
from lakebed.store.manifest_survey import Damaged

_TIERS = {0: Residency.TIER0, 1: Residency.TIER1, 2: Residency.TIER2}


class TierTotal(NamedTuple):
    """What one tier has."""

    segments: int
    bytes: int


def state_lines(found: ReadableManifestLog, replayed: ReplayResult) -> list[str]:
    index = replayed.index
    heading = ("segment", "tiers", "condition", "base offset", "durable", "compressed", "ext id",
               "watermark", "pending", "failures", "changed", "object key")  # fmt: skip
    time = time_text(index.last_timestamp_ms)
    return [
        f"{about_line(found)}, as of {replayed.end}, {time}",
        "",
        *table(heading, map(_state_row, index.segments())),
        "",
        *(f"pending delete: {key}" for key in index.pending_deletes),
        *_total_lines(index),
        *(f"{DAMAGE_MARK} {problem}" for problem in state_problems(found, replayed)),
    ]


def state_document(found: ReadableManifestLog, replayed: ReplayResult) -> dict[str, object]:
    index, snapshot = replayed.index, replayed.snapshot
    return {
        **about(found),
        "as_of": {
            "position": str(replayed.end),
            **time_document("time", index.last_timestamp_ms),
            "snapshot": None if snapshot is None else snapshot.snapshot_id,
            "records_replayed": replayed.record_count,
        },
        "segments": [_state_document(state) for state in index.segments()],
        "pending_deletes": list(index.pending_deletes),
        "totals": {
            "segments": len(index),
            "sealed": sum(state.is_sealed for state in index.segments()),
            "pending": sum(1 for _ in index.pending()),
            "coordinator_watermark": index.coordinator_watermark,
            "records": index.record_count,
            **{f"tier{tier}": _total(index, tier)._asdict() for tier in _TIERS},
        },
        "problems": state_problems(found, replayed),
    }


def state_problems(found: ReadableManifestLog, replayed: ReplayResult) -> list[str]:
    """Whatever makes it doubtful that the state is as shown."""
    problems = [] if found.damage is None else [found.damage]
    problems += replayed.problems
    for damage in replayed.damages:
        if damage.segment_ids:
            named = ", ".join(map(str, sorted(damage.segment_ids)))
            problems.append(f"chunk {damage.chunk_index} is left out; it was about {named}")
    return problems


def history_lines(found: ReadableManifestLog, segment_id: int, steps: Sequence[Step]) -> list[str]:
    heading = ("time", "after", "what", "position")
    rows = [
        (
            time_text(time_ms) if time_ms is not None else "-",
            "-" if after_ms is None else duration_text(after_ms),
            what,
            str(step.position),
        )
        for step, time_ms, after_ms, what in _timeline(steps)
    ]
    return [f"{about_line(found)}, segment {segment_id}", "", *table(heading, rows)]


def history_document(
    found: ReadableManifestLog, segment_id: int, steps: Sequence[Step]
) -> dict[str, object]:
    return {
        **about(found),
        "segment_id": segment_id,
        "steps": [
            {**_step_document(step), "after_ms": after_ms, "what": what}
            for step, _, after_ms, what in _timeline(steps)
        ],
    }


class _Moment(NamedTuple):
    step: Step
    time_ms: int | None
    after_ms: int | None  # since the step before
    what: str


def _timeline(steps: Sequence[Step]) -> Iterator[_Moment]:
    last_ms: int | None = None
    for step in steps:
        if isinstance(step, Damaged):
            yield _Moment(step, None, None, f"{DAMAGE_MARK} {step.state}: {step.problem}")
            continue
        if isinstance(step, RecordedHistory):
            time_ms, what = step.state.changed_at_ms, _remembered_words(step)
        else:
            time_ms, what = step.record.timestamp_ms, record_words(step.record)
        yield _Moment(step, time_ms, None if last_ms is None else time_ms - last_ms, what)
        last_ms = time_ms


def _remembered_words(step: RecordedHistory) -> str:
    state = step.state
    words = [*_condition_words(state), f"tiers {_tier_text(state)}"]
    return f"as snapshot {step.snapshot_id} has it: {', '.join(words)}"


def _step_document(step: Step) -> dict[str, object]:
    if isinstance(step, RecordedHistory):
        place: dict[str, object] = {"position": str(step.position), "snapshot": step.snapshot_id}
        return {**place, "state": _state_document(step.state)}
    return entry_document(step)


def _state_row(state: SegmentState) -> tuple[str, ...]:
    return (
        str(state.segment_id),
        _tier_text(state),
        words_or_dash(_condition_words(state)),
        str(state.base_offset),
        str(state.durable_bytes) if state.is_sealed else "-",
        str(state.compressed_bytes) if state.compressed_bytes else "-",
        str(state.ext_id) if state.is_sealed else "-",
        str(state.coordinator_watermark) if state.is_sealed else "-",
        words_or_dash(flag_names(state.pending, Pending)),
        words_or_dash(_failure_words(state)),
        time_text(state.changed_at_ms),
        state.key or "-",
    )


def _state_document(state: SegmentState) -> dict[str, object]:
    return {
        "segment_id": state.segment_id,
        "tiers": [tier for tier, flag in _TIERS.items() if state.residency & flag],
        "condition": flag_names(state.condition, Condition),
        "pending": flag_names(state.pending, Pending),
        "failures": _failure_words(state),
        "base_offset": state.base_offset,
        "durable_bytes": state.durable_bytes,
        "resident_bytes": state.resident_bytes,
        "compressed_bytes": state.compressed_bytes,
        "segment_crc64": crc_text(state.segment_crc64),
        "ext_id": state.ext_id,
        "coordinator_watermark": state.coordinator_watermark,
        "epoch": state.epoch,
        "job_id": state.job_id,
        "dictionary_id": state.dictionary_id,
        "hydration_source": state.hydration_source,
        "object_key": state.key or None,
        "etag": state.etag or None,
        "upload_key": state.upload_key or None,
        **time_document("opened_at", state.opened_at_ms),
        **time_document("sealed_at", state.sealed_at_ms),
        **time_document("changed_at", state.changed_at_ms),
    }


def _tier_text(state: SegmentState) -> str:
    return "+".join(str(tier) for tier, flag in _TIERS.items() if state.residency & flag) or "-"


def _condition_words(state: SegmentState) -> list[str]:
    """`open` or `sealed` (which implies that it was opened), and what is wrong."""
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


def _total(index: ManifestIndex, tier: int) -> TierTotal:
    states = list(index.iter_residency(_TIERS[tier]))
    sizes = [state.compressed_bytes if tier else state.resident_bytes for state in states]
    return TierTotal(len(states), sum(sizes))


def _total_lines(index: ManifestIndex) -> Iterator[str]:
    sealed = sum(state.is_sealed for state in index.segments())
    pending = sum(1 for _ in index.pending())
    yield (
        f"{counted(len(index), 'segment')}, {sealed} sealed, {pending} with work pending, "
        f"watermark {index.coordinator_watermark}, {counted(index.record_count, 'record')}"
    )
    for tier in _TIERS:
        total = _total(index, tier)
        if total.segments:
            yield f"tier {tier}: {counted(total.segments, 'segment')}, {size_text(total.bytes)}"
