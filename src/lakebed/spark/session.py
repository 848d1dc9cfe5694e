"""A Spark session that listens on this machine alone and says little: local, or elsewhere.

    session()                                           # all cores of this machine
    session(master="spark://127.0.0.1:7077")            # the tasks run there, the driver here
    session(remote="sc://127.0.0.1:15002")              # Spark Connect: all of it runs there
    session(**{"spark.sql.shuffle.partitions": "4"})    # any option, by its Spark name

pyspark reads `JAVA_HOME` and `PYSPARK_PYTHON` from the environment while it starts; they are set
for that moment and put back. One process has at most one session: a second call returns the first.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakebed.base.errors import InputError
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import shown
from lakebed.kernels.disk import real_disk
from lakebed.spark import java
from lakebed.spark.errors import SparkUnavailable
from lakebed.spark.registry import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
LOGGING_FILE = Path(__file__).with_name("log4j2.properties")
WORKER_PYTHON = Path(__file__).with_name("worker-python")
LEVEL_PROPERTY = "lakebed.spark.log.level"
CONNECT_PORT = 15002
_LOCAL = re.compile(r"local(\[(?P<threads>\*|\d{1,6})(,\s*\d+)?\])?")
CONNECT_ADDRESS = "spark.connect.grpc.binding.address"  # all there are, unless it is told
_EXECUTORS_TRIES, _EXECUTORS_S = 50, 0.2
CONNECT_S = 10.0  # for a server that does not answer; pyspark itself would try for minutes


def session(
    *,
    master: str | None = None,
    remote: str | None = None,
    log: str | Path | None = None,
    **options: str,
) -> SparkSession:
    """Start (or get) the session, with all data sources. `SparkUnavailable` if pyspark or a Java
    is missing, or nobody answers at `remote`.

    `log`: a new file for what Java and the workers say, from warnings on; else it goes to standard
    error, from errors on. A server elsewhere has its own.
    """
    for name in options:
        if not name.startswith("spark."):
            raise InputError(f"{shown(name)} is not a Spark option: their names start with spark.")
    if master is not None and remote is not None:
        raise InputError("master or remote: one of both")
    try:
        import pyspark  # noqa: F401  (whether it is there)
    except ImportError as error:
        raise SparkUnavailable("pyspark is not installed: install lakebed[spark]") from error
    with _outputs_to(log):
        if remote is not None:
            started = _remote_session(remote, options)
        else:
            given = {} if master is None else {"spark.master": master}
            quiet = default_options(level="error" if log is None else "warn")
            chosen = quiet | given | options
            started = _own_session(local_options(chosen["spark.master"]) | chosen)
    register(started)
    return started


def _own_session(options: Mapping[str, str]) -> SparkSession:
    """Its driver is this process, with a Java beside it."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    found = java.find()
    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        with _environment(_java_settings(found) | worker_settings(options["spark.master"])):
            started = builder.getOrCreate()
            _wait_for_executors(started)
            return started
    except (PySparkException, OSError) as error:
        raise SparkUnavailable(
            f"Spark did not start on Java {found.version} ({found.candidate.home}): "
            f"{_first_line(error)}"
        ) from error
    except Exception as error:
        # What Java raised, a class of a package that may not be there.
        if "py4j" not in type(error).__module__:
            raise
        cause = getattr(error, "java_exception", None)
        reason = _first_line(error) if cause is None else str(cause.toString()).partition("\n")[0]
        raise SparkUnavailable(f"Spark did not start: {reason}") from error


def _wait_for_executors(started: SparkSession) -> None:
    """Until one has registered, for some seconds at most: before that Spark reports a parallelism
    that is not the cluster's."""
    context = started.sparkContext
    if (context.master or "").startswith("local"):
        return
    with ThreadRunner() as runner:
        never = runner.event()
        for _ in range(_EXECUTORS_TRIES):
            if context._jsc.sc().getExecutorMemoryStatus().size() > 1:  # the driver is one
                return
            never.wait(_EXECUTORS_S)


def _remote_session(remote: str, options: dict[str, str]) -> SparkSession:
    """Its driver is a Spark Connect server; `local[2]` starts one for this process."""
    from pyspark.errors import PySparkException

    settings: Mapping[str, str] = {}
    if remote.startswith("local"):
        settings = _java_settings(java.find()) | worker_settings(remote)
        defaults = default_options() | local_options(remote)
        options = defaults | {CONNECT_ADDRESS: LOOPBACK} | options
        options.pop("spark.master")  # the remote says it
    else:
        _require_answer(remote)
    try:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.remote(remote)
        for name, value in options.items():
            builder = builder.config(name, value)
        with _environment(settings):
            return builder.getOrCreate()
    except ImportError as error:
        raise SparkUnavailable(
            f"Spark Connect needs more than is installed: install lakebed[spark] ({error})"
        ) from error
    except PySparkException as error:
        raise SparkUnavailable(f"no session at {remote}: {_first_line(error)}") from error


def _require_answer(remote: str) -> None:
    """`InputError` if it is no address, `SparkUnavailable` if nobody listens there."""
    try:
        parts = urlsplit(remote)
        place = (parts.hostname or "", parts.port or CONNECT_PORT)
    except ValueError:
        parts, place = urlsplit(""), ("", 0)
    if parts.scheme != "sc" or not place[0]:
        raise InputError(
            f"{shown(remote.partition(';')[0])} is no Spark Connect server: expected sc://HOST:PORT"
        )
    try:
        socket.create_connection(place, timeout=CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SparkUnavailable(
            f"no Spark Connect server answers at sc://{place[0]}:{place[1]}: {reason}"
        ) from error


def _java_settings(found: java.Probe) -> dict[str, str]:
    return {
        "JAVA_HOME": str(java.home(found)),
        "SPARK_LOCAL_IP": LOOPBACK,
    }


def worker_settings(master: str) -> dict[str, str]:
    """The workers' Python. Where they are elsewhere, or another Spark is asked for, what is said of
    the installed pyspark in `worker-python` need not be so."""
    is_ours = master.startswith("local") and "SPARK_HOME" not in os.environ
    python, more = sys.executable, {}
    if is_ours and os.access(WORKER_PYTHON, os.X_OK):
        python, more = str(WORKER_PYTHON), {"PYSPARK_INSTALLED_PYTHON": sys.executable}
    return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, **more}


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def default_options(*, level: str = "error") -> dict[str, str]:
    """What a session is started with unless it is told otherwise; `level`: what is logged."""
    logging = f"-Dlog4j2.configurationFile={LOGGING_FILE.as_uri()} -D{LEVEL_PROPERTY}={level}"
    return {
        "spark.app.name": "lakebed",
        "spark.master": "local[*]",
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": logging,
    }


def local_options(master: str) -> dict[str, str]:
    """What fits a session whose tasks all run on this machine."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return {}
    threads = found["threads"] or "1"
    count = len(os.sched_getaffinity(0)) if threads == "*" else int(threads)
    return {"spark.sql.shuffle.partitions": str(max(count, 1))}


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _outputs_to(path: str | Path | None) -> Iterator[None]:
    """What is started in here writes to the file, for as long as it runs. This process does so
    only in here."""
    if path is None:
        yield
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    kept = {number: _duplicate(number) for number in (1, 2)}
    try:
        with real_disk().create(path) as log:
            descriptor = log.descriptor()
            assert descriptor is not None, "a file of a real disk has one"
            for number in kept:
                os.dup2(descriptor, number)
        yield
    finally:
        for number, before in kept.items():
            if before is None:
                os.close(number)
            else:
                os.dup2(before, number)
                os.close(before)


def _duplicate(number: int) -> int | None:
    """None if it was closed all along."""
    try:
        return os.dup(number)
    except OSError:
        return None
