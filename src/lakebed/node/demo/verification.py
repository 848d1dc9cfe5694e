"""Verifies every checksum of the store: logs in all tiers, topics, groups and objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.node.demo.context import mib
from lakebed.node.demo.events import TOPIC
from lakebed.node.demo.tiers import LOG
from lakebed.store.store_check import StoreReport, verify_store
from lakebed.store.store_check_lines import report_lines

if TYPE_CHECKING:
    from lakebed.node.demo.context import DemoContext


def verify(context: DemoContext, *, event_count: int) -> None:
    """Verifies the closed store, and checks the numbers of messages and records."""
    context.watcher.begin("verify", unit="bytes")
    report = verify_store(context.root, progress=lambda done, _: context.watcher.advance(done))
    judge(context, report, event_count=event_count)


def judge(context: DemoContext, report: StoreReport, *, event_count: int) -> None:
    problems = report.problem_count + len(report.unchecked)
    problems += sum(log.unreached is not None for log in report.logs)
    messages = sum(topic.report.records for topic in report.topics if topic.name == TOPIC)
    records = sum(log.report.records for log in report.logs if log.name == LOG)
    context.check("problems found by verify", expected=0, found=problems)
    context.check("messages with good checksums", expected=event_count, found=messages)
    context.check("log records with good checksums", expected=context.scale.records, found=records)
    if problems:
        for line in report_lines(report)[:problems]:
            context.report("problem", line)
    context.report(
        "verified",
        f"every checksum of {messages:,} messages, {records:,} log records and "
        f"{report.objects.versions:,} objects of {mib(report.objects.bytes)}: "
        f"{problems or 'no'} problems",
    )
