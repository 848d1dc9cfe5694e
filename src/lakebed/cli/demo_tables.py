"""The summary of `lakebed demo`: counts, rates, sizes, and next steps."""

from __future__ import annotations

from lakebed.cli.manifest_words import size_text
from lakebed.cli.output import counted, table
from lakebed.node.demo.checks import disagreeing
from lakebed.node.demo.summary import Summary

DISAGREES = "!!"
SIZES = {
    "events": "events, as produced",
    "topic": "topic, on disk",
    "table": "Delta table, in its bucket",
}


def summary_lines(summary: Summary) -> list[str]:
    """The counts first; whether they agree last."""
    lines = ["", *_checks(summary), "", *_rates(summary), "", *_sizes(summary), ""]
    lines += [f"skipped: {what}" for what in summary.left_out]
    if summary.plot is not None:
        lines.append(f"plot: {summary.plot}")
    if summary.folder is not None:
        lines.append(f"files: {summary.folder}")
    lines += ["next steps:", *(f"  {step}" for step in summary.next_steps), ""]
    return [*lines, _verdict(summary)]


def _checks(summary: Summary) -> list[str]:
    rows = [
        (check.what, f"{check.expected:,}", f"{check.found:,}", "" if check.agrees else DISAGREES)
        for check in summary.checks
    ]
    return table(("counts that must agree", "expected", "found", ""), rows)


def _rates(summary: Summary) -> list[str]:
    rows = [(what, f"{rate:,}") for what, rate in summary.rates.items()]
    return table(("rates", "per second"), rows)


def _sizes(summary: Summary) -> list[str]:
    rows = [(SIZES[what], size_text(size)) for what, size in summary.sizes.items()]
    lines = table(("sizes", ""), rows)
    tiers = [(held.step, *map(size_text, held.sizes)) for held in summary.tiers]
    return [*lines, "", *table(("log, after it was", "Tier 0", "Tier 1", "Tier 2"), tiers)]


def _verdict(summary: Summary) -> str:
    wrong = disagreeing(summary.checks)
    if wrong:
        verb = "does not agree" if len(wrong) == 1 else "do not agree"
        return f"{counted(len(wrong), 'count')} {verb}: {', '.join(one.what for one in wrong)}"
    if not summary.checks:
        return "nothing was counted"
    return (
        f"all {len(summary.checks)} counts agree: nothing acknowledged was lost "
        f"({summary.seconds:.0f} s)"
    )
