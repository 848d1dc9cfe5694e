"""Renders the report of a store's verification as lines of text: damage first, totals last."""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.store.damage_marks import MarkReport
from lakebed.store.store_check import StoreReport
from lakebed.store.topic_report import problem_lines


def report_lines(report: StoreReport) -> list[str]:
    """Returns one line for each problem, then the notes, then the totals."""
    return [*_problems(report), *_notes(report), *_sums(report)]


def mark_lines(marks: MarkReport) -> list[str]:
    """Returns one line for each object version: whether it is marked as damaged now.

    For a version whose mark was not changed because of an error, the line has the error. Versions
    that were deleted meanwhile have no line.
    """
    lines = [
        f"{'/'.join(version[:2])}, version {version[2]}: marked as damaged"
        for version in marks.marked
    ]
    lines += [
        f"{'/'.join(version[:2])}, version {version[2]}: not marked, because the writer reads it "
        "without error"
        for version in marks.whole
    ]
    return [*lines, *(f"mark not changed: {why}" for why in marks.failed)]


def _problems(report: StoreReport) -> Iterator[str]:
    for log in report.logs:
        yield from log.problems
    for topic in report.topics:
        yield from problem_lines(topic.name, topic.report)
    yield from map(str, report.groups.problems)
    yield from map(str, report.objects.problems)
    yield from map(str, report.unchecked)
    for record in report.damage:
        yield f"{record}; to acknowledge the loss: lakebed damage acknowledge {record.id}"
    if report.forgotten_count:
        yield (
            "the record of damage is full: "
            f"{report.forgotten_count} more loss{'es' * (report.forgotten_count != 1)} not recorded"
        )
    for log in report.logs:
        if log.unreached is not None:
            yield f"{log.name}: Tier 2 cannot be reached: {log.unreached}"


def _notes(report: StoreReport) -> Iterator[str]:
    for log in report.logs:
        yield from (f"note: {note}" for note in (log.manifest.notes if log.manifest else ()))
        if log.report.unread and log.unreached is None:
            count = _counted(len(log.report.unread), "segment")
            yield f"note: {log.name}: not read: {count} that only Tier 2 has"
    for topic in report.topics:
        yield from (f"note: {note}" for note in topic.report.notes)
    yield from (f"note: the topic {name} was deleted meanwhile" for name in report.gone)
    yield from (f"note: {note}" for note in report.groups.notes)
    yield from (f"note: {note}" for note in report.objects.notes)


def _sums(report: StoreReport) -> Iterator[str]:
    logs = [log.report for log in report.logs]
    topics = [topic.report for topic in report.topics]
    objects = report.objects
    archived = sum(log.archived for log in logs)
    if logs:
        yield ", ".join(
            [
                _counted(len(logs), "log"),
                _counted(sum(log.segments for log in logs), "segment"),
                _counted(sum(log.records for log in logs), "record"),
                _counted(sum(log.warm_files for log in logs), "warm file"),
                _counted(sum(log.objects for log in logs), "object"),
                *([_counted(archived, "archived segment")] if archived else []),
            ]
        )
    if topics:
        yield ", ".join(
            [
                _counted(len(topics), "topic"),
                _counted(sum(topic.partitions for topic in topics), "partition"),
                _counted(sum(topic.segments for topic in topics), "segment"),
                _counted(sum(topic.records for topic in topics), "record"),
            ]
        )
    if report.groups.groups:
        yield ", ".join(
            [
                _counted(report.groups.groups, "group"),
                _counted(report.groups.partitions, "partition"),
                _counted(report.groups.events, "event"),
            ]
        )
    if objects.versions or objects.parts or objects.segments:
        yield ", ".join(
            [
                _counted(objects.versions, "version"),
                _counted(objects.chunks, "chunk"),
                _counted(objects.segments, "segment"),
                _counted(objects.bytes, "byte"),
            ]
        )
    count = report.problem_count
    if report.is_good:
        yield "all whole"
    else:
        yield _counted(count, "problem") if count else "no problem found, but not all was checked"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
