"""Starts a Spark session that by default listens on loopback only and logs little.

    session()                                           # all cores of this machine
    session(master="spark://127.0.0.1:7077")            # the tasks run there, the driver here
    session(remote="sc://127.0.0.1:15002")              # Spark Connect: driver and tasks run there
    session(**{"spark.sql.shuffle.partitions": "4"})    # any option, by its Spark name

pyspark reads `JAVA_HOME` and `PYSPARK_PYTHON` from the environment while it starts a session on
this machine. `session` sets these variables before that, and restores them afterwards. A process
has at most one session at a time: until that session is stopped, further calls return it.
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
CONNECT_ADDRESS = "spark.connect.grpc.binding.address"  # Spark listens on all addresses by default
_EXECUTORS_TRIES, _EXECUTORS_S = 50, 0.2
CONNECT_S = 10.0  # timeout; pyspark itself would try for minutes


def session(
    *,
    master: str | None = None,
    remote: str | None = None,
    log: str | Path | None = None,
    **options: str,
) -> SparkSession:
    """Starts the Spark session of this process, or returns the existing one, with all data sources
    registered.

    Raises `SparkUnavailable` if pyspark or Java is missing, if Spark does not start, or if no
    server answers at `remote`; and `InputError` if an argument is not valid.

    `log` is the path of a file for the output of Java and the workers, from level WARN up. The file
    is created, and must not exist yet. Without `log`, their output goes to standard error, from
    level ERROR up. A Spark Connect server that runs elsewhere has its own log.
    """
    for name in options:
        if not name.startswith("spark."):
            raise InputError(
                f"{shown(name)} is not a Spark option: the name must start with 'spark.'"
            )
    if master is not None and remote is not None:
        raise InputError("set master or remote, not both")
    try:
        import pyspark  # noqa: F401  (checks that it is installed)
    except ImportError as error:
        raise SparkUnavailable("pyspark is not installed: install lakebed[spark]") from error
    level = "error" if log is None else "warn"
    with _outputs_to(log):
        if remote is not None:
            started = _remote_session(remote, options, level=level)
        else:
            master_option = {} if master is None else {"spark.master": master}
            chosen = default_options(level=level) | master_option | options
            started = _own_session(local_options(chosen["spark.master"]) | chosen)
    register(started)
    return started


def _own_session(options: Mapping[str, str]) -> SparkSession:
    """Starts a session whose driver is this process. Spark runs in a new Java process."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    chosen_java = java.find()
    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        with _environment(_java_settings(chosen_java) | worker_settings(options["spark.master"])):
            started = builder.getOrCreate()
            _wait_for_executors(started)
            return started
    except (PySparkException, OSError) as error:
        raise SparkUnavailable(
            f"Spark did not start on Java {chosen_java.version} ({chosen_java.candidate.home}): "
            f"{_first_line(error)}"
        ) from error
    except Exception as error:
        # An error of Java; its class is in py4j, which may not be importable.
        if "py4j" not in type(error).__module__:
            raise
        cause = getattr(error, "java_exception", None)
        reason = _first_line(error) if cause is None else str(cause.toString()).partition("\n")[0]
        raise SparkUnavailable(
            f"Spark did not start, because of an error in Java: {reason}"
        ) from error


def _wait_for_executors(started: SparkSession) -> None:
    """Waits until an executor has registered, but returns after ten seconds in any case.

    Before an executor has registered, Spark does not know how many tasks the cluster can run in
    parallel. Returns immediately for a local session.
    """
    context = started.sparkContext
    if (context.master or "").startswith("local"):
        return
    with ThreadRunner() as runner:
        never = runner.event()
        for _ in range(_EXECUTORS_TRIES):
            if context._jsc.sc().getExecutorMemoryStatus().size() > 1:  # besides the driver
                return
            never.wait(_EXECUTORS_S)


def _remote_session(remote: str, options: dict[str, str], *, level: str) -> SparkSession:
    """Connects to a Spark Connect server. If `remote` begins with `local`, as in `local[2]`, starts
    a server for this process first.
    """
    from pyspark.errors import PySparkException

    settings: Mapping[str, str] = {}
    if remote.startswith("local"):
        settings = _java_settings(java.find()) | worker_settings(remote)
        defaults = default_options(level=level) | local_options(remote)
        options = defaults | {CONNECT_ADDRESS: LOOPBACK} | options
        options.pop("spark.master")  # `remote` sets it
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
            f"a package that Spark Connect needs is missing: install lakebed[spark] ({error})"
        ) from error
    except PySparkException as error:
        raise SparkUnavailable(
            f"cannot start a session at {remote.partition(';')[0]}: {_first_line(error)}"
        ) from error


def _require_answer(remote: str) -> None:
    """Checks that a server accepts connections at `remote`.

    Raises `InputError` if `remote` does not begin with `sc://HOST` or `sc://HOST:PORT`, and
    `SparkUnavailable` if no connection is accepted there.
    """
    try:
        parts = urlsplit(remote)
        address = (parts.hostname or "", parts.port or CONNECT_PORT)
    except ValueError:
        parts, address = urlsplit(""), ("", 0)
    if parts.scheme != "sc" or not address[0]:
        raise InputError(
            f"{shown(remote.partition(';')[0])} is not the address of a Spark Connect server: "
            "expected sc://HOST:PORT"
        )
    try:
        socket.create_connection(address, timeout=CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SparkUnavailable(
            f"no Spark Connect server answers at sc://{address[0]}:{address[1]}: {reason}"
        ) from error


def _java_settings(chosen_java: java.Probe) -> dict[str, str]:
    return {
        "JAVA_HOME": str(java.home(chosen_java)),
        "SPARK_LOCAL_IP": LOOPBACK,
    }


def worker_settings(master: str) -> dict[str, str]:
    """Returns the environment variables that select the Python of the workers and the driver.

    That is the script `worker-python` if the workers run on this machine with the installed
    pyspark, because the script works only then. With other masters, or another Spark
    (`SPARK_HOME`), it is the path of the current Python executable.
    """
    is_ours = master.startswith("local") and "SPARK_HOME" not in os.environ
    python, more = sys.executable, {}
    if is_ours and os.access(WORKER_PYTHON, os.X_OK):
        python, more = str(WORKER_PYTHON), {"PYSPARK_INSTALLED_PYTHON": sys.executable}
    return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, **more}


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def default_options(*, level: str = "error") -> dict[str, str]:
    """Returns the Spark options that a session started on this machine has by default.

    `level` is the log level of Java.
    """
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
    """Returns further Spark options for a local master such as `local[4]`, and none for other
    masters.

    They set the number of shuffle partitions to the number of threads: for `local[*]`, the number
    of CPUs that this process may use.
    """
    match = _LOCAL.fullmatch(master)
    if match is None:
        return {}
    threads = match["threads"] or "1"
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
    """Redirects standard output and standard error to a new file within the `with` block.

    Processes that are started in the block keep writing to the file after it. Redirects nothing if
    `path` is None.
    """
    if path is None:
        yield
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    saved = {number: _duplicate(number) for number in (1, 2)}
    try:
        with real_disk().create(path) as log:
            descriptor = log.descriptor()
            assert descriptor is not None, "a real file has a descriptor"
            for number in saved:
                os.dup2(descriptor, number)
        yield
    finally:
        for number, before in saved.items():
            if before is None:
                os.close(number)
            else:
                os.dup2(before, number)
                os.close(before)


def _duplicate(number: int) -> int | None:
    """Returns a duplicate of the file descriptor, or None if the descriptor is closed."""
    try:
        return os.dup(number)
    except OSError:
        return None
