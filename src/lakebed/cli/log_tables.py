"""What `lakebed aof` prints about logs: the same facts as lines, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from lakebed.aof.record_id import RecordId
from lakebed.api.read_surface import ReadableStore
from lakebed.cli.moments import moment_text
from lakebed.cli.output import counted, table
from lakebed.store.log_check import LogReport
from lakebed.store.pin_file import Pin
from lakebed.store.repair import RepairReport
from lakebed.store.segment_summary import SegmentSummary
from lakebed.store.summary import LogSummary

_DUMP_HEADING = (
    "log",
    "records",
    "bytes",
    "sealed",
    "unsealed",
    "archived",
    "tier 0",
    "tier 1",
    "tier 2",
    "oldest",
    "durable end",
    "watermark",
    "epoch",
)


def segment_lines(segments: Sequence[SegmentSummary]) -> list[str]:
    heading = ("id", "base offset", "created", "sealed", "bytes", "records", "state", "tiers")
    rows = [
        (
            str(segment.segment_id),
            str(segment.base_offset),
            moment_text(segment.created_at),
            "-" if segment.sealed_at is None else moment_text(segment.sealed_at),
            str(segment.bytes),
            _number(segment.records),
            segment.state,
            "+".join(map(str, segment.tiers)) or "-",
        )
        for segment in segments
    ]
    return table(heading, rows)


def segment_document(segment: SegmentSummary) -> dict[str, object]:
    return {
        "id": segment.segment_id,
        "base_offset": segment.base_offset,
        "created_at_ns": segment.created_at,
        "sealed_at_ns": segment.sealed_at,
        "bytes": segment.bytes,
        "file_bytes": segment.file_bytes,
        "records": segment.records,
        "state": segment.state,
        "tiers": list(segment.tiers),
        "path": segment.path,
    }


def verify_lines(log: str, report: LogReport, *, tier2: bool) -> list[str]:
    lines = [str(problem) for problem in report.problems]
    if not lines:
        counts = [counted(report.segments, "segment"), counted(report.records, "record")]
        counts += [counted(report.warm_files, "warm file")] if report.warm_files else []
        counts += [counted(report.objects, "object")] if report.objects else []
        counts += [counted(report.archived, "archived segment")] if report.archived else []
        verdict = "all whole" if report.unreached is None else "whole as far as they were read"
        lines.append(f"{log}: {', '.join(counts)}, {verdict}")
    if report.unread and not tier2:
        count = counted(len(report.unread), "segment")
        lines.append(f"{log}: not read: {count} that only Tier 2 has (--tier2 reads them)")
    return lines


def verify_document(log: str, report: LogReport) -> dict[str, object]:
    return {
        "log": log,
        "ok": not report.problems and report.unreached is None,
        "segments": report.segments,
        "records": report.records,
        "warm_files": report.warm_files,
        "objects": report.objects,
        "archived": report.archived,
        "unread": report.unread,
        "problems": [
            {**problem._asdict(), "verdict": problem.verdict.value} for problem in report.problems
        ],
    }


def repair_lines(log: str, report: RepairReport, *, dry_run: bool) -> list[str]:
    cut = "would be cut" if dry_run else "cut"
    lines = [f"{log}: {report.torn_bytes} torn bytes {cut}"] if report.torn_bytes else []
    lines += [f"{log}: damaged: {problem}" for problem in report.problems]
    lines += [f"{log}: saved as {path}" for path in report.quarantined]
    return lines or [f"{log}: nothing to repair"]


def dump_document(
    store: ReadableStore, found: list[LogSummary], problems: dict[str, str]
) -> dict[str, object]:
    version = store.version
    return {
        "root": store.root,
        "store": None if version is None else version._asdict(),
        "pins": [_pin_document(pin) for pin in store.pins.active()],
        "logs": [_log_document(summary) for summary in found],
        "problems": problems,
    }


def _pin_document(pin: Pin) -> dict[str, object]:
    return {
        "pin_id": pin.pin_id,
        "log": pin.log,
        "segment_start": pin.start,
        "segment_end": pin.end,
        "expires_ms": pin.expires_ms,
        "owner": pin.owner,
        "created_ms": pin.created_ms,
    }


def _log_document(summary: LogSummary) -> dict[str, object]:
    return {
        "log": summary.name,
        "state": {
            "oldest": None if summary.oldest is None else str(RecordId(summary.oldest)),
            "durable_end": str(RecordId(summary.durable_end)),
            "coordinator_watermark": summary.coordinator_watermark,
            "writer_epoch": summary.writer_epoch,
        },
        "counters": {
            "records": summary.records(),
            "bytes": sum(segment.bytes for segment in summary.segments),
            "segments_sealed": summary.count("sealed"),
            "segments_unsealed": summary.count("active", "unsealed"),
            "segments_archived": summary.count("archived"),
            "flush_failures": sum(segment.flush_failure for segment in summary.segments),
            "spare_files": summary.spare_files,
            "ignored_files": summary.ignored_files,
        },
        "residency": {
            **{f"tier{tier}": asdict(total) for tier, total in enumerate(summary.tiers)},
            "archive": {
                "segments": summary.count("archived"),
                "bytes": summary.total_bytes("archived"),
            },
        },
    }


def dump_lines(found: list[LogSummary], problems: dict[str, str]) -> list[str]:
    rows = [
        (
            summary.name,
            _number(summary.records()),
            str(sum(segment.bytes for segment in summary.segments)),
            str(summary.count("sealed")),
            str(summary.count("active", "unsealed")),
            str(summary.count("archived")),
            *(str(total.segments) for total in summary.tiers),
            "-" if summary.oldest is None else str(RecordId(summary.oldest)),
            str(RecordId(summary.durable_end)),
            str(summary.coordinator_watermark),
            str(summary.writer_epoch),
        )
        for summary in found
    ]
    damaged = [f"{name}: {problem}" for name, problem in problems.items()]
    return [*table(_DUMP_HEADING, rows), *damaged]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
