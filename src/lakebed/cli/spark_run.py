"""One run of a job: the store, a session, a watcher, and what is told in the end.

    run_job(invocation(context), wishes, job, needs=Needs.STORE)

Without a node a job that writes opens the store itself, and serves its S3 on loopback with keys of
its own while it runs. What Spark logs goes to a file in a scratch folder, which stays if the job
fails; else it is removed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import InputError, LakebedError, Locked
from lakebed.base.runner import ThreadRunner
from lakebed.cli.failure import INTERRUPT_EXIT_CODE
from lakebed.cli.interrupts import HeldInterrupts
from lakebed.cli.invocation import Invocation
from lakebed.cli.report import Column, Item, Part, Text
from lakebed.cli.spark_causes import cause_of, is_sparks, with_log
from lakebed.cli.spark_options import Wishes
from lakebed.cli.spark_watcher import TerminalWatcher
from lakebed.cli.store_access import DAMAGED_EXIT_CODE
from lakebed.cli.values import size_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakebed.api.surface import Store
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.report import Report

LOG_NAME = "spark.log"


class Needs(Enum):
    """What a job does with the store."""

    NOTHING = auto()  # reads
    STORE = auto()  # writes to it, through whoever has it open
    S3 = auto()  # uses its S3


@dataclass(frozen=True)
class Ground:
    """What a job is given. `s3` are the options that name the S3, as `lakebed.table` has them."""

    spark: SparkSession
    backend: Backend
    s3: Mapping[str, str] = field(repr=False)  # they have a secret
    watcher: TerminalWatcher


Job = Callable[[Ground], "Report"]


def run_job(
    run: Invocation,
    wishes: Wishes,
    job: Job,
    *,
    needs: Needs,
    check: Callable[[Backend], object] | None = None,
) -> None:
    """`check` is called before anything is started: what is wrong is told at once."""
    require_spark()
    wishes = wishes.at(run)
    options = wishes.spark_options()
    backend = backend_of_wishes(run, wishes)
    if check is not None:
        check(backend)
    scratch = Path(tempfile.mkdtemp(prefix="lakebed-spark-"))
    runner = ThreadRunner()
    watcher = TerminalWatcher(run.output, runner=runner)
    try:
        with HeldInterrupts() as interrupts, _quiet_py4j(), ExitStack() as stack:
            s3 = stack.enter_context(_s3(run, wishes, needs))
            watcher.begin("starting Spark")
            with interrupts.let_through():
                spark = _session(wishes, options, scratch)
            stack.callback(spark.stop)
            ui = _ui_address(spark)
            if ui is not None:
                watcher.report_line(f"Spark UI: {ui}")
            with interrupts.let_through():
                began_ns = runner.clock.monotonic_ns()
                report = job(Ground(spark, backend, s3, watcher))
                seconds = (runner.clock.monotonic_ns() - began_ns) / NS_PER_S
    except KeyboardInterrupt:
        _remove(scratch)
        raise
    except Exception as error:
        if not isinstance(error, LakebedError) and not is_sparks(error):
            raise
        raise _told(error, scratch) from error
    finally:
        watcher.finish()
        runner.close()
    _remove(scratch)
    finished = Finished(report=report, seconds=seconds, spark_ui=ui)
    run.output.show(*finished.parts())
    if interrupts.has_come:  # a stream ends by it, and what it did until then counts
        raise typer.Exit(INTERRUPT_EXIT_CODE)
    if not report.is_good:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A report, and how long it took."""

    report: Report
    seconds: float
    spark_ui: str | None

    def parts(self) -> tuple[Part, ...]:
        report = self.report
        text = f"{report.job}: {'done' if report.is_good else 'failed'} in {self.seconds:.1f} s"
        text += f", {report.row_count:,} rows ({self.rate(report.row_count):,} rows/s)"
        if report.size_bytes:
            rate = size_text(self.rate(report.size_bytes))
            text += f", {size_text(report.size_bytes)} ({rate}/s)"
        facts = [
            f"  {name.replace('_', ' ')}: {_fact_text(fact)}" for name, fact in report.facts.items()
        ]
        return Item(FINISHED, self), Text(*report.lines, text, *facts)

    def rate(self, count: int) -> int:
        return round(count / self.seconds) if self.seconds > 0 else 0


def _fact_text(fact: object) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, int):
        return f"{fact:,}"
    if isinstance(fact, str | float):
        return str(fact)
    return json.dumps(fact, default=str)


FINISHED = (
    Column("job", lambda finished: finished.report.job),
    Column("good", lambda finished: finished.report.is_good),
    Column("rows", lambda finished: finished.report.row_count),
    Column("bytes", lambda finished: finished.report.size_bytes),
    Column("seconds", json=lambda seconds: round(seconds, 3)),
    Column("rows_per_second", lambda finished: finished.rate(finished.report.row_count)),
    Column("bytes_per_second", lambda finished: finished.rate(finished.report.size_bytes)),
    Column("facts", lambda finished: finished.report.facts),
    Column("lines", lambda finished: finished.report.lines),
    Column("spark_ui"),
)


def require_spark() -> None:
    """`SparkUnavailable` if it is not installed."""
    from lakebed.spark.errors import SparkUnavailable

    try:
        import pyarrow as pa  # noqa: F401  (whether they are there)
        import pyspark  # noqa: F401
    except ImportError as error:
        raise SparkUnavailable(f"{error.name} is not installed: install lakebed[spark]") from error


def backend_of_wishes(run: Invocation, wishes: Wishes) -> Backend:
    """The endpoint, with keys of the environment, or the files of the root."""
    from lakebed.spark.backends import BACKEND_OPTIONS, backend_of
    from lakebed.spark.options import Options

    if wishes.endpoint is None:
        if wishes.ca_file is not None and wishes.s3_endpoint is None:
            raise InputError("--ca-file goes with --endpoint or --s3-endpoint")
        given = {"path": str(run.require_root())}
    else:
        given = {"endpoint": wishes.endpoint, "caFile": str(wishes.ca_file or "")}
    return backend_of(Options("lakebed spark", given, known=BACKEND_OPTIONS))


def _session(wishes: Wishes, options: dict[str, str], scratch: Path) -> SparkSession:
    from lakebed.spark.session import session

    own = {} if wishes.remote is not None else {"spark.ui.enabled": "true"}
    handler = signal.getsignal(signal.SIGINT)
    try:
        return session(
            master=wishes.master,
            remote=wishes.remote,
            log=scratch / LOG_NAME,
            **(own | options),
        )
    finally:
        # pyspark puts one of its own there. Only the main thread can, and only it gets interrupts.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _s3(run: Invocation, wishes: Wishes, needs: Needs) -> Iterator[dict[str, str]]:
    """The options of the S3 that the job can use; none if it needs none, or another has it."""
    if wishes.s3_endpoint is not None:
        yield _given_s3(wishes.s3_endpoint, wishes.ca_file)
        return
    if wishes.endpoint is not None:
        if needs is Needs.S3:
            raise InputError("the buckets of a node are reached by --s3-endpoint: it is missing")
        yield {}
        return
    if needs is Needs.NOTHING:
        yield {}
        return
    with ExitStack() as stack:
        yield _own_s3(run, needs, stack)


def _own_s3(run: Invocation, needs: Needs, stack: ExitStack) -> dict[str, str]:
    from lakebed.node.own_s3 import own_s3

    root = run.require_root()

    def here() -> dict[str, str]:
        return stack.enter_context(own_s3(root)).options()

    def there(store: Store) -> dict[str, str]:
        store.close()
        if needs is Needs.S3:
            raise _locked(root, needs)
        return {}

    try:
        return run.place.either(here, there)
    except Locked as error:
        raise _locked(root, needs) from error


def _locked(root: Path, needs: Needs) -> Locked:
    advice = "end it first"
    if needs is Needs.S3:
        advice = "if it is a node, give its S3 by --s3-endpoint; else " + advice
    return Locked(f"{root} is open in another program: {advice}")


def _given_s3(url: str, ca_file: Path | None) -> dict[str, str]:
    """With keys of the environment; they are looked up here, and travel."""
    from lakebed.spark.options import Options
    from lakebed.spark.tables.location import PLACE_OPTIONS, table_location

    given = {"s3Endpoint": url, "table": "any/any", "region": os.environ.get("AWS_REGION", "")}
    if ca_file is not None and url.startswith("https://"):
        given["caFile"] = str(ca_file)
    found = table_location(Options("lakebed spark", given, known=PLACE_OPTIONS))
    return {
        "s3Endpoint": found.endpoint,
        "accessKey": found.access_key,
        "secretKey": found.secret_key,
        "region": found.region,
        "caFile": found.ca_file,
    }


@contextmanager
def _quiet_py4j() -> Iterator[None]:
    """It logs tracebacks as nobody in particular; what has a name goes on to be told."""
    nobody = logging.getLogger()

    def refuse(_: logging.LogRecord) -> bool:
        return False

    nobody.addFilter(refuse)
    try:
        yield
    finally:
        nobody.removeFilter(refuse)


def _ui_address(spark: SparkSession) -> str | None:
    from lakebed.spark.query_watch import is_remote

    return None if is_remote(spark) else spark.sparkContext.uiWebUrl


def _told(error: Exception, scratch: Path) -> LakebedError:
    told = error if isinstance(error, LakebedError) else cause_of(error)
    log = scratch / LOG_NAME
    if not log.exists() or not log.stat().st_size:  # not started, or elsewhere
        _remove(scratch)
        return told
    return with_log(told, log)


def _remove(scratch: Path) -> None:
    """With the log; what cannot be removed stays."""
    from lakebed.kernels.disk import real_disk

    disk = real_disk()
    with contextlib.suppress(LakebedError):
        if disk.exists(scratch / LOG_NAME):
            disk.unlink(scratch / LOG_NAME)
        disk.remove_folder(scratch)
