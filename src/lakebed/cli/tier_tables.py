"""What `lakebed aof tiers` prints: the same facts as lines, and as JSON."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aof.manifest.records import ReasonCode
from lakebed.aof.manifest.replay import ReplayResult
from lakebed.aof.manifest.state import Condition, Failures, Pending, SegmentState
from lakebed.api.read_surface import ReadableManifestLog
from lakebed.cli.manifest_words import flag_names, reason_text, size_text, words_or_dash
from lakebed.cli.output import counted, table
from lakebed.store.residency import TIERS, tier_bytes, tiers_of

DAMAGE_MARK = "!!"


class LogResidency(NamedTuple):
    """What `lakebed aof tiers` tells of."""

    found: ReadableManifestLog
    tier2: str  # where that is
    replayed: ReplayResult

    def states(self) -> list[SegmentState]:
        return list(self.replayed.index.segments())

    def problems(self) -> list[str]:
        """Whatever makes it doubtful that it is as shown."""
        lost = [] if self.found.damage is None else [self.found.damage]
        return [*lost, *self.replayed.problems]


class Failure(NamedTuple):
    """Work that failed when it was last tried."""

    work: str
    reason_code: int


def tiers_lines(residency: LogResidency) -> list[str]:
    found, states = residency.found, residency.states()
    heading = ("segment", "tiers", "state", "bytes", "compressed", "ratio", "pending",
               "failures", "object key")  # fmt: skip
    lines = [f"{found.log}: stream {found.stream}, Tier 2 is {residency.tier2}", ""]
    lines += [*table(heading, map(_row, states)), ""]
    for tier in TIERS:
        there = _in_tier(states, tier)
        size = size_text(sum(tier_bytes(state, tier) for state in there))
        lines.append(f"tier {tier}: {counted(len(there), 'segment')}, {size}")
    deletes = residency.replayed.index.pending_deletes
    lines += [f"object to delete: {key}" for key in deletes]
    lines += _advice(residency)
    return [*lines, *(f"{DAMAGE_MARK} {problem}" for problem in residency.problems())]


def tiers_document(residency: LogResidency) -> dict[str, object]:
    found, states = residency.found, residency.states()
    totals = {
        f"tier{tier}": {
            "segments": len(_in_tier(states, tier)),
            "bytes": sum(tier_bytes(state, tier) for state in _in_tier(states, tier)),
        }
        for tier in TIERS
    }
    return {
        "log": found.log,
        "stream_id": found.stream,
        "manifest_log_enabled": found.is_enabled,
        "tier2": residency.tier2,
        "segments": [_document(state) for state in states],
        "tiers": totals,
        "pending_deletes": list(residency.replayed.index.pending_deletes),
        "problems": residency.problems(),
    }


def _row(state: SegmentState) -> tuple[str, ...]:
    failures = [f"{one.work}: {reason_text(one.reason_code)}" for one in _failures(state)]
    ratio = _ratio(state)
    return (
        str(state.segment_id),
        "+".join(map(str, tiers_of(state))) or "-",
        _state_word(state),
        str(state.durable_bytes) if state.is_sealed else "-",
        str(state.compressed_bytes) if state.compressed_bytes else "-",
        "-" if ratio is None else f"{ratio:.1f}",
        words_or_dash(flag_names(state.pending, Pending)),
        words_or_dash(failures),
        state.key or "-",
    )


def _document(state: SegmentState) -> dict[str, object]:
    return {
        "segment_id": state.segment_id,
        "tiers": list(tiers_of(state)),
        "state": "sealed" if state.is_sealed else "open",
        "needs_repair": state.needs_repair,
        "bytes": state.durable_bytes if state.is_sealed else None,
        "compressed_bytes": state.compressed_bytes or None,
        "ratio": _ratio(state),
        "pending": flag_names(state.pending, Pending),
        "failures": [
            {**one._asdict(), "reason": reason_text(one.reason_code)} for one in _failures(state)
        ],
        "object_key": state.key or None,
        "etag": state.etag or None,
    }


def _advice(residency: LogResidency) -> list[str]:
    log, states = residency.found.log, residency.states()
    lines: list[str] = []
    if residency.found.is_enabled is False:
        lines.append("the manifest log is switched off: this is what was recorded last")
    refused = Failure("upload", ReasonCode.UNAUTHORISED)
    if any(refused in _failures(state) for state in states):
        lines.append(f"when the credentials are right again: lakebed aof retry-upload {log}")
    missing = Failure("hydration", ReasonCode.MISSING)
    if any(missing in _failures(state) for state in states):
        lines.append(f"objects are missing: lakebed aof repair {log} --tier2")
    damaged = Failure("compression", ReasonCode.CODEC)
    if any(damaged in _failures(state) for state in states):
        lines.append(f"segments are damaged: lakebed aof verify {log}")
    return lines


def _state_word(state: SegmentState) -> str:
    words = ["sealed" if state.is_sealed else "open"]
    words += ["needs repair"] if state.needs_repair else []
    words += ["flush failure"] if state.condition & Condition.FLUSH_FAILURE else []
    return ", ".join(words)


def _failures(state: SegmentState) -> list[Failure]:
    reasons = {
        Failures.COMPRESSION: state.compression_reason,
        Failures.UPLOAD: state.upload_reason,
        Failures.HYDRATION: state.hydration_reason,
    }
    return [
        Failure(str(flag.name).lower(), code)
        for flag, code in reasons.items()
        if state.failures & flag
    ]


def _ratio(state: SegmentState) -> float | None:
    compressed = state.compressed_bytes
    return round(state.durable_bytes / compressed, 2) if compressed else None


def _in_tier(states: list[SegmentState], tier: int) -> list[SegmentState]:
    return [state for state in states if state.residency & TIERS[tier]]
