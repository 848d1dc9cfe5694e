"""What a job did, as lines and as a document."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebed.cli.manifest_words import size_text

if TYPE_CHECKING:
    from lakebed.spark.jobs.report import Report


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A report, and how long it took."""

    report: Report
    seconds: float
    spark_ui: str | None

    def document(self) -> dict[str, object]:
        report = self.report
        return {
            "job": report.job,
            "good": report.is_good,
            "rows": report.row_count,
            "bytes": report.size_bytes,
            "seconds": round(self.seconds, 3),
            "rows_per_second": self._rate(report.row_count),
            "bytes_per_second": self._rate(report.size_bytes),
            "facts": report.facts,
            "lines": list(report.lines),
            "spark_ui": self.spark_ui,
        }

    def lines(self) -> list[str]:
        report = self.report
        text = f"{report.job}: {'done' if report.is_good else 'failed'} in {self.seconds:.1f} s"
        text += f", {report.row_count:,} rows ({self._rate(report.row_count):,} rows/s)"
        if report.size_bytes:
            rate = size_text(self._rate(report.size_bytes))
            text += f", {size_text(report.size_bytes)} ({rate}/s)"
        facts = [f"{name.replace('_', ' ')}: {_told(fact)}" for name, fact in report.facts.items()]
        return [*report.lines, text, *(f"  {fact}" for fact in facts)]

    def _rate(self, count: int) -> int:
        return round(count / self.seconds) if self.seconds > 0 else 0


def _told(fact: object) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, int):
        return f"{fact:,}"
    if isinstance(fact, str | float):
        return str(fact)
    return json.dumps(fact, default=str)
