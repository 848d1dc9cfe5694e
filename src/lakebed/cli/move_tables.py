"""What the commands that move segments print: the same facts as lines, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lakebed.aof.tiers.migration import MigrationReport
from lakebed.aof.tiers.segment_tiering import RepairOutcome
from lakebed.cli.manifest_words import size_text
from lakebed.cli.output import counted
from lakebed.store.tier_moves import Moved, Outcome
from lakebed.store.tier_verification import CopyReport


def moved_lines(log: str, outcome: Outcome, done: str) -> list[str]:
    lines = [_moved_line(one, done) for one in outcome.moved]
    counts = Counter(skipped.why for skipped in outcome.skipped)
    passed = ", ".join(f"{count} {why}" for why, count in counts.items())
    total = f"{counted(len(outcome.moved), 'segment')} {done}"
    total += f", {size_text(outcome.bytes)}" if outcome.moved else ""
    return [*lines, f"{log}: {total}{f'; skipped: {passed}' if passed else ''}"]


def moved_document(log: str, outcome: Outcome, done: str) -> dict[str, object]:
    return {
        "log": log,
        "done": done,
        "segments": [
            {
                "segment_id": one.after.segment_id,
                "bytes": one.bytes,
                "segment_bytes": one.after.durable_bytes,
                "compressed_bytes": one.after.compressed_bytes or None,
                "tiers": list(one.after.tiers),
                "object_key": one.after.key or None,
            }
            for one in outcome.moved
        ],
        "bytes": outcome.bytes,
        "skipped": [skipped._asdict() for skipped in outcome.skipped],
        "failed": _failed(outcome),
    }


def _moved_line(one: Moved, done: str) -> str:
    after = one.after
    size = f"{one.bytes} bytes"
    if done == "uploaded":
        size = f"{after.durable_bytes} bytes as {one.bytes}"
    tiers = "+".join(map(str, after.tiers))
    return f"segment {after.segment_id}: {done}, {size}, now in tier {tiers}"


# `lakebed aof repair --tier2`.


def repaired_lines(log: str, outcome: Outcome) -> list[str]:
    lines = [
        f"{log}: segment {one.segment_id}: {one.outcome.value}: {one.key}"
        for one in outcome.repaired
    ]
    return lines or [f"{log}: nothing to repair in Tier 2"]


def repaired_document(log: str, outcome: Outcome) -> dict[str, object]:
    return {
        "log": log,
        "dry_run": False,
        "repaired": [
            {"segment_id": one.segment_id, "object_key": one.key, "outcome": one.outcome.value}
            for one in outcome.repaired
        ],
        "failed": _failed(outcome),
    }


def foreseen_lines(log: str, found: Sequence[CopyReport]) -> list[str]:
    """What a repair would do."""
    return [
        f"{log}: segment {copy.segment_id}: {_foreseen(copy)}: {copy.path}" for copy in found
    ] or [f"{log}: nothing to repair in Tier 2"]


def foreseen_document(log: str, found: Sequence[CopyReport]) -> dict[str, object]:
    return {
        "log": log,
        "dry_run": True,
        "repaired": [
            {
                "segment_id": copy.segment_id,
                "object_key": copy.key,
                "outcome": _foreseen(copy),
            }
            for copy in found
        ],
        "failed": [],
    }


def _foreseen(copy: CopyReport) -> str:
    return "would be uploaded again" if copy.has_local else RepairOutcome.LOST.value


def are_all_mended(outcome: Outcome) -> bool:
    return all(one.outcome is not RepairOutcome.LOST for one in outcome.repaired)


def _failed(outcome: Outcome) -> list[dict[str, object]]:
    return [
        {"segment_id": one.segment_id, "kind": type(one.error).__name__, "message": str(one.error)}
        for one in outcome.failed
    ]


# `lakebed aof migrate-tier2`.


def migrated_lines(log: str, done: MigrationReport) -> list[str]:
    lines = [f"{log}: {key}: missing" for key in done.missing]
    copied = f"{counted(done.copied_count, 'object')} copied, {size_text(done.copied_bytes)}"
    present = f", {done.present_count} were there" if done.present_count else ""
    deleted = (
        f"; {done.deleted_count} deleted from the address before" if done.deleted_count else ""
    )
    lines.append(f"{log}: {copied}{present}; Tier 2 is {done.after}{deleted}")
    if done.left_at:
        lines.append(f"{log}: objects are left at {done.left_at}; --delete removes them")
    return lines


def migrated_document(log: str, done: MigrationReport) -> dict[str, object]:
    return {
        "log": log,
        "before": done.before,
        "tier2": done.after,
        "copied_objects": done.copied_count,
        "copied_bytes": done.copied_bytes,
        "present_objects": done.present_count,
        "deleted_objects": done.deleted_count,
        "missing": done.missing,
        "left_at": done.left_at or None,
    }
