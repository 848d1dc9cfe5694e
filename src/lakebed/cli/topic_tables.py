"""What `lakebed topic` prints about topics: the same facts as lines, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from lakebed.cli.output import counted, table

if TYPE_CHECKING:  # who only looks need not wait for the import of the writer
    from lakebed.store.topic_repair import TopicRepair
    from lakebed.store.topic_summary import TopicSummary
    from lakebed.store.topic_verification import TopicReport


def list_lines(topics: Sequence[TopicSummary], problems: Mapping[str, str]) -> list[str]:
    heading = ("topic", "partitions", "offsets", "bytes", "groups")
    rows = [
        (
            topic.name,
            str(len(topic.partitions)),
            str(topic.offsets),
            str(topic.bytes),
            str(len(topic.groups)),
        )
        for topic in topics
    ]
    return [*table(heading, rows), *(f"{name}: {problem}" for name, problem in problems.items())]


def list_document(topics: Sequence[TopicSummary], problems: Mapping[str, str]) -> dict[str, object]:
    return {
        "topics": [
            {
                "topic": topic.name,
                "partitions": len(topic.partitions),
                "offsets": topic.offsets,
                "bytes": topic.bytes,
                "groups": list(topic.groups),
            }
            for topic in topics
        ],
        "problems": dict(problems),
    }


def describe_lines(topic: TopicSummary) -> list[str]:
    heading = ("partition", "start", "high watermark", "segments", "bytes")
    rows = [
        (
            str(one.partition),
            str(one.start_offset),
            str(one.high_watermark),
            str(one.segments),
            str(one.bytes),
        )
        for one in topic.partitions
    ]
    settings = [
        (one.name, setting_text(one.value), "topic" if one.is_own else "store")
        for one in topic.settings
    ]
    return [
        f"topic   {topic.name}",
        f"id      {topic.topic_id}",
        f"groups  {', '.join(topic.groups) or '-'}",
        "",
        *table(heading, rows),
        "",
        *table(("setting", "value", "from"), settings),
    ]


def describe_document(topic: TopicSummary) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "groups": list(topic.groups),
        "partitions": [asdict(one) for one in topic.partitions],
        "settings": {one.name: one.value for one in topic.settings},
        "own_settings": [one.name for one in topic.settings if one.is_own],
    }


def setting_text(value: object) -> str:
    """As it is written in a configuration file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def verify_lines(topic: str, report: TopicReport) -> list[str]:
    from lakebed.store.topic_report import problem_lines

    lines = problem_lines(topic, report)
    if not lines:
        counts = [
            counted(report.partitions, "partition"),
            counted(report.segments, "segment"),
            counted(report.records, "record"),
        ]
        lines.append(f"{topic}: {', '.join(counts)}, all whole")
    return [*lines, *(f"note: {note}" for note in report.notes)]


def verify_document(topic: str, report: TopicReport) -> dict[str, object]:
    return {
        "topic": topic,
        "ok": not report.problems,
        "partitions": report.partitions,
        "segments": report.segments,
        "records": report.records,
        "problems": [problem._asdict() for problem in report.problems],
        "lost": [lost._asdict() for lost in report.lost],
        "notes": list(report.notes),
    }


def repair_lines(topic: str, report: TopicRepair, *, dry_run: bool) -> list[str]:
    cut = "would be cut" if dry_run else "cut"
    lines = [f"{topic}: {report.torn_bytes} torn bytes {cut}"] if report.torn_bytes else []
    lines += [f"{topic}: damaged: {problem}" for problem in report.problems]
    lines += [f"{topic}: {lost}" for lost in report.lost]
    lines += [f"{topic}: saved as {path}" for path in report.quarantined]
    return lines or [f"{topic}: nothing to repair"]


def repair_document(topic: str, report: TopicRepair, *, dry_run: bool) -> dict[str, object]:
    return {
        "topic": topic,
        "dry_run": dry_run,
        "torn_bytes": report.torn_bytes,
        "problems": list(report.problems),
        "lost": [lost._asdict() for lost in report.lost],
        "quarantined": list(report.quarantined),
    }
