"""`lakebed demo`: a guided tour of a node, in a scratch folder."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.output import Output
from lakebed.cli.report import Column, Rows, Text, Value, counted
from lakebed.cli.store_access import DAMAGED_EXIT_CODE
from lakebed.cli.values import size_text
from lakebed.node.demo.scale import EVENT_COUNT_MIN

# Imported by the command: the help needs none of it.
if TYPE_CHECKING:
    from lakebed.node.demo.summary import Summary

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class _Ended(BaseException):
    """Raised by a signal to end the demo, because a `KeyboardInterrupt` would end only a Spark
    job."""


@app.command()
def demo(
    context: typer.Context,
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Use this folder, which must be empty or not exist, and keep it. Default: a "
            "temporary folder, which is deleted at the end; only the plot is kept.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="The seed of the random events.")
    ] = 1,
    events: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=EVENT_COUNT_MIN,
            help="The number of events to produce first; more follow before and after the node is "
            "killed. Default: 300000, or 30000 without compiled kernels.",
        ),
    ] = None,
) -> None:
    """Start a node and use it: produce, consume, tier, land, query, kill, verify.

    The demo compares pairs of counts that must agree, such as acknowledged and found messages; the
    exit code is 65 if a pair differs. Without Spark or Java, the steps that use Spark are skipped.

    \b
    Examples:
      Run the demo:
        lakebed demo
      Keep its files:
        lakebed demo --scratch lakebed-demo
      Run a short demo with a JSON report:
        lakebed --json demo --events 20000
    """
    from lakebed.base.runner import ThreadRunner
    from lakebed.cli.spark_watcher import TerminalWatcher
    from lakebed.node.demo.tour import run

    invoked = invocation(context)
    invoked.place.refuse_if_named(invoked.command)
    output = invoked.output
    with ThreadRunner() as runner:
        watcher = TerminalWatcher(output, runner=runner)
        try:
            with ended_by_signals(), _sparks_errors(scratch):
                summary = run(scratch=scratch, watcher=watcher, seed=seed, event_count=events)
        finally:
            watcher.finish()
    end(output, summary)


def end(output: Output, summary: Summary) -> None:
    """Shows the summary. Exits with code 65 if counts differ, or if nothing was counted."""
    output.show(
        *(Value(name, value) for name, value in summary.document().items()),
        Text(""),
        Rows("", CHECKS, summary.checks),
        Text(""),
        Rows("", RATES, summary.rates.items()),
        Text(""),
        Rows("", SIZES, summary.sizes.items()),
        Text(""),
        Rows("", TIERS, summary.tiers),
        Text("", *(f"skipped: {part}" for part in summary.left_out)),
        Text(*([] if summary.plot is None else [f"plot: {summary.plot}"])),
        Text(*([] if summary.folder is None else [f"files: {summary.folder}"])),
        Text("next steps:", *(f"  {step}" for step in summary.next_steps), ""),
        Text(_verdict(summary)),
    )
    if not summary.is_good:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ends the block at the first SIGINT, SIGTERM or SIGHUP, by raising `_Ended` in it; later
    signals are ignored, so that the demo can clean up. Then raises `KeyboardInterrupt`."""
    has_come = False

    def come(_number: int, _frame: FrameType | None) -> None:
        nonlocal has_come
        if not has_come:
            has_come = True
            raise _Ended

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Ignored signals (`nohup`) stay ignored.
    before = {number: signal.getsignal(number) for number in numbers}
    before = {
        number: handler for number, handler in before.items() if handler is not signal.SIG_IGN
    }
    for number in before:
        signal.signal(number, come)
    try:
        yield
    except BaseException:
        if has_come:  # whatever the shutdown raised
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _sparks_errors(scratch: Path | None) -> Iterator[None]:
    """Replaces an error of Spark by its cause. The message has the path of Spark's log if the
    scratch folder, which has the log, is kept."""
    from lakebed.base.errors import LakebedError
    from lakebed.cli.spark_causes import cause_of, is_sparks, with_log
    from lakebed.node.demo.landing import SPARK_LOG

    try:
        yield
    except Exception as error:
        if isinstance(error, LakebedError) or not is_sparks(error):
            raise
        cause = cause_of(error)
        raise (
            cause if scratch is None else with_log(cause, scratch.absolute() / SPARK_LOG)
        ) from error


def _verdict(summary: Summary) -> str:
    from lakebed.node.demo.checks import disagreeing

    wrong = disagreeing(summary.checks)
    if wrong:
        verb = "does not agree" if len(wrong) == 1 else "do not agree"
        return f"{counted(len(wrong), 'count')} {verb}: {', '.join(each.what for each in wrong)}"
    if not summary.checks:
        return "nothing was counted"
    return (
        f"all {len(summary.checks)} counts agree: nothing acknowledged was lost "
        f"({summary.seconds:.0f} s)"
    )


DISAGREES = "!!"
SIZE_NAMES = {
    "events": "events, as produced",
    "topic": "topic, on disk",
    "table": "Delta table, in its bucket",
}
CHECKS = (
    Column("", "what", "counts that must agree"),
    Column("", "expected", "expected", lambda count: f"{count:,}"),
    Column("", "found", "found", lambda count: f"{count:,}"),
    Column("", lambda check: "" if check.agrees else DISAGREES, ""),
)
RATES = (
    Column("", lambda rate: rate[0], "rates"),
    Column("", lambda rate: f"{rate[1]:,}", "per second"),
)
SIZES = (
    Column("", lambda size: SIZE_NAMES[size[0]], "sizes"),
    Column("", lambda size: size_text(size[1]), ""),
)
TIERS = (
    Column("", "step", "log, after it was"),
    Column("", lambda held: size_text(held.sizes[0]), "Tier 0"),
    Column("", lambda held: size_text(held.sizes[1]), "Tier 1"),
    Column("", lambda held: size_text(held.sizes[2]), "Tier 2"),
)
