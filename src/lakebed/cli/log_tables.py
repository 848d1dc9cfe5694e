"""What `lakebed aof` prints about logs: the same facts as lines, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.cli.moments import moment_text
from lakebed.cli.output import table
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.repair import RepairReport
from lakebed.store.summary import RESIDENT_STATES, LogSummary, SegmentSummary

_DUMP_HEADING = (
    "log",
    "records",
    "bytes",
    "sealed",
    "unsealed",
    "archived",
    "oldest",
    "durable end",
    "watermark",
    "epoch",
)


def segment_lines(segments: Sequence[SegmentSummary]) -> list[str]:
    heading = ("id", "base offset", "created", "sealed", "bytes", "records", "state")
    rows = [
        (
            str(segment.segment_id),
            str(segment.base_offset),
            moment_text(segment.created_at),
            "-" if segment.sealed_at is None else moment_text(segment.sealed_at),
            str(segment.bytes),
            str(segment.records),
            segment.state,
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
        "path": segment.path,
    }


def repair_lines(log: str, report: RepairReport, *, dry_run: bool) -> list[str]:
    cut = "would be cut" if dry_run else "cut"
    lines = [f"{log}: {report.torn_bytes} torn bytes {cut}"] if report.torn_bytes else []
    lines += [f"{log}: damaged: {problem}" for problem in report.problems]
    lines += [f"{log}: saved as {path}" for path in report.quarantined]
    return lines or [f"{log}: nothing to repair"]


def dump_document(
    store: ReadOnlyStore, found: list[LogSummary], problems: dict[str, str]
) -> dict[str, object]:
    version = store.version
    return {
        "root": store.root,
        "store": None if version is None else version._asdict(),
        "pins": [pin._asdict() for pin in store.pins.active()],
        "logs": [_log_document(summary) for summary in found],
        "problems": problems,
    }


def _log_document(summary: LogSummary) -> dict[str, object]:
    return {
        "log": summary.name,
        "state": {
            "oldest": None if summary.oldest is None else str(summary.oldest),
            "durable_end": str(summary.durable_end),
            "coordinator_watermark": summary.coordinator_watermark,
            "writer_epoch": summary.writer_epoch,
        },
        "counters": {
            "records": sum(segment.records for segment in summary.segments),
            "bytes": sum(segment.bytes for segment in summary.segments),
            "segments_sealed": summary.count("sealed"),
            "segments_unsealed": summary.count("active", "unsealed"),
            "segments_archived": summary.count("archived"),
            "flush_failures": sum(segment.flush_failure for segment in summary.segments),
            "spare_files": summary.spare_files,
            "ignored_files": summary.ignored_files,
        },
        "residency": {
            "tier0": {
                "segments": summary.count(*RESIDENT_STATES),
                "bytes": summary.total_bytes(*RESIDENT_STATES),
            },
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
            str(sum(segment.records for segment in summary.segments)),
            str(sum(segment.bytes for segment in summary.segments)),
            str(summary.count("sealed")),
            str(summary.count("active", "unsealed")),
            str(summary.count("archived")),
            "-" if summary.oldest is None else str(summary.oldest),
            str(summary.durable_end),
            str(summary.coordinator_watermark),
            str(summary.writer_epoch),
        )
        for summary in found
    ]
    damaged = [f"{name}: {problem}" for name, problem in problems.items()]
    return [*table(_DUMP_HEADING, rows), *damaged]
