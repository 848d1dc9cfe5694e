"""Runs a job: opens the store and a Spark session, shows progress, and reports the result.

    run_job(invocation(context), options, job, needs=StoreAccess.WRITE)

If no node is given, a job that writes opens the store itself and serves it over S3 on loopback,
with temporary access keys. If another process has the store open, the job writes through that
process, but a job that needs buckets fails. Spark's log is a file in a scratch folder, which is
removed unless the job fails with an error.
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
from lakebed.cli.spark_options import SparkOptions
from lakebed.cli.spark_watcher import TerminalWatcher
from lakebed.cli.store_access import DAMAGED_EXIT_CODE
from lakebed.cli.values import size_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakebed.api.surface import Store
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.report import Report

LOG_NAME = "spark.log"


class StoreAccess(Enum):
    """How a job accesses the store."""

    READ = auto()
    WRITE = auto()  # through the process that has it open, if there is one
    S3 = auto()  # through its S3 endpoint


@dataclass(frozen=True)
class JobContext:
    """The Spark session, the store and the progress display that a job uses.

    `s3` has the options of `lakebed.table` for the S3 endpoint; it is empty if the job uses none.
    """

    spark: SparkSession
    backend: Backend
    s3: Mapping[str, str] = field(repr=False)  # has a secret
    watcher: TerminalWatcher


Job = Callable[[JobContext], "Report"]


def run_job(
    run: Invocation,
    options: SparkOptions,
    job: Job,
    *,
    needs: StoreAccess,
    check: Callable[[Backend], object] | None = None,
) -> None:
    """Runs a job and prints its report.

    `check` is called before anything is started, so that a wrong argument fails early. Exits with
    code 65 if the report is not good, or with 130 if the job was ended by an interrupt.
    """
    require_spark()
    options = options.at(run)
    settings = options.spark_options()
    backend = backend_of_options(run, options)
    if check is not None:
        check(backend)
    scratch = Path(tempfile.mkdtemp(prefix="lakebed-spark-"))
    runner = ThreadRunner()
    watcher = TerminalWatcher(run.output, runner=runner)
    try:
        with HeldInterrupts() as interrupts, _quiet_py4j(), ExitStack() as stack:
            s3 = stack.enter_context(_s3(run, options, needs))
            watcher.begin("starting Spark")
            with interrupts.let_through():
                spark = _session(options, settings, scratch)
            stack.callback(spark.stop)
            ui = _ui_address(spark)
            if ui is not None:
                watcher.report_line(f"Spark UI: {ui}")
            with interrupts.let_through():
                began_ns = runner.clock.monotonic_ns()
                report = job(JobContext(spark, backend, s3, watcher))
                seconds = (runner.clock.monotonic_ns() - began_ns) / NS_PER_S
    except KeyboardInterrupt:
        _remove(scratch)
        raise
    except Exception as error:
        if not isinstance(error, LakebedError) and not is_sparks(error):
            raise
        raise _reported(error, scratch) from error
    finally:
        watcher.finish()
        runner.close()
    _remove(scratch)
    finished = Finished(report=report, seconds=seconds, spark_ui=ui)
    run.output.show(*finished.parts())
    if interrupts.has_come:  # a stream ends by an interrupt; its results count
        raise typer.Exit(INTERRUPT_EXIT_CODE)
    if not report.is_good:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The report of a finished job, and how long it took."""

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
    """Raises `SparkUnavailable` if pyspark or pyarrow is not installed."""
    from lakebed.spark.errors import SparkUnavailable

    try:
        import pyarrow as pa  # noqa: F401  (whether they are installed)
        import pyspark  # noqa: F401
    except ImportError as error:
        raise SparkUnavailable(f"{error.name} is not installed: install lakebed[spark]") from error


def backend_of_options(run: Invocation, options: SparkOptions) -> Backend:
    """Returns the backend through which workers access the store: the endpoint with its access key,
    or the files of the root."""
    from lakebed.spark.backends import BACKEND_OPTIONS, backend_of
    from lakebed.spark.options import Options

    if options.endpoint is None:
        if options.ca_file is not None and options.s3_endpoint is None:
            raise InputError(
                "--ca-file can only be used with --endpoint, --s3-endpoint or a URL as --root"
            )
        given = {"path": str(run.require_root())}
    else:
        given = {"endpoint": options.endpoint, "caFile": str(options.ca_file or "")}
    return backend_of(Options("lakebed spark", given, known=BACKEND_OPTIONS))


def _session(options: SparkOptions, settings: dict[str, str], scratch: Path) -> SparkSession:
    from lakebed.spark.session import session

    own = {} if options.remote is not None else {"spark.ui.enabled": "true"}
    handler = signal.getsignal(signal.SIGINT)
    try:
        return session(
            master=options.master,
            remote=options.remote,
            log=scratch / LOG_NAME,
            **(own | settings),
        )
    finally:
        # pyspark has replaced the handler. Only the main thread can and must restore it.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _s3(run: Invocation, options: SparkOptions, needs: StoreAccess) -> Iterator[dict[str, str]]:
    """Yields the options of the S3 endpoint; an empty dict if the job uses none."""
    if options.s3_endpoint is not None:
        yield _given_s3(options.s3_endpoint, options.ca_file)
        return
    if options.endpoint is not None:
        if needs is StoreAccess.S3:
            raise InputError(
                "the job uses buckets of the node: name its S3 endpoint with --s3-endpoint"
            )
        yield {}
        return
    if needs is StoreAccess.READ:
        yield {}
        return
    with ExitStack() as stack:
        yield _own_s3(run, needs, stack)


def _own_s3(run: Invocation, needs: StoreAccess, stack: ExitStack) -> dict[str, str]:
    from lakebed.node.own_s3 import own_s3

    root = run.require_root()

    def serve_here() -> dict[str, str]:
        return stack.enter_context(own_s3(root)).options()

    def use_server(store: Store) -> dict[str, str]:
        store.close()
        if needs is StoreAccess.S3:
            raise _locked(root, needs)
        return {}

    try:
        return run.place.open_or_connect(serve_here, use_server)
    except Locked as error:
        raise _locked(root, needs) from error


def _locked(root: Path, needs: StoreAccess) -> Locked:
    advice = "stop it first"
    if needs is StoreAccess.S3:
        advice = "if it is a node, give its S3 endpoint with --s3-endpoint; else " + advice
    return Locked(f"{root} is open in another program: {advice}")


def _given_s3(url: str, ca_file: Path | None) -> dict[str, str]:
    """Returns the options of the S3 endpoint at `url`.

    The access key is read from the environment of this process, and sent to the workers.
    """
    from lakebed.spark.options import Options
    from lakebed.spark.tables.location import PLACE_OPTIONS, table_location

    given = {"s3Endpoint": url, "table": "any/any", "region": os.environ.get("AWS_REGION", "")}
    if ca_file is not None and url.startswith("https://"):
        given["caFile"] = str(ca_file)
    location = table_location(Options("lakebed spark", given, known=PLACE_OPTIONS))
    return {
        "s3Endpoint": location.endpoint,
        "accessKey": location.access_key,
        "secretKey": location.secret_key,
        "region": location.region,
        "caFile": location.ca_file,
    }


@contextmanager
def _quiet_py4j() -> Iterator[None]:
    """Silences the root logger, to which Py4J logs tracebacks. Other loggers are not affected."""
    root = logging.getLogger()

    def refuse(_: logging.LogRecord) -> bool:
        return False

    root.addFilter(refuse)
    try:
        yield
    finally:
        root.removeFilter(refuse)


def _ui_address(spark: SparkSession) -> str | None:
    from lakebed.spark.query_watch import is_remote

    return None if is_remote(spark) else spark.sparkContext.uiWebUrl


def _reported(error: Exception, scratch: Path) -> LakebedError:
    cause = error if isinstance(error, LakebedError) else cause_of(error)
    log = scratch / LOG_NAME
    if not log.exists() or not log.stat().st_size:  # not started, or elsewhere
        _remove(scratch)
        return cause
    return with_log(cause, log)


def _remove(scratch: Path) -> None:
    """Removes Spark's log and the scratch folder. Errors are ignored."""
    from lakebed.kernels.disk import real_disk

    disk = real_disk()
    with contextlib.suppress(LakebedError):
        if disk.exists(scratch / LOG_NAME):
            disk.unlink(scratch / LOG_NAME)
        disk.remove_folder(scratch)
