"""Spark elsewhere, from the pip package, on loopback: a standalone cluster, a Connect server.

with Cluster(folder, hidden) as cluster, Driver(master=cluster.url) as driver:
    driver.run(count_rows, place)        # in another process, with its session
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any, Final, Self, TypeVar

import pyspark

from lakebed.spark import java
from lakebed.spark.session import session
from tests.java import OPTIONS
from tests.spark.hidden import HiddenFolder

LOOPBACK: Final = "127.0.0.1"
START_S: Final = 120.0
STOP_S: Final = 30.0
WORKER_COUNT: Final = 2

_SPARK: Final = Path(pyspark.__file__).parent
_MASTER_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = re.compile(r"(Successfully registered) with master")
_CONNECTED: Final = re.compile(r"Spark Connect server started at: \S*?:(\d+)")

Result = TypeVar("Result")


class Program:
    """One of Spark's own programs, and what it says, which goes into a file as well."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        name: str,
        sign: re.Pattern[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`sign` is looked for in its lines: it has started then."""
        self._sign = sign
        self._log = folder / f"{name}.log"
        self._started: Future[str] = Future()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**_environment(), **(environment or {})},
            cwd=folder,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._thread = threading.Thread(target=self._listen, args=(self._process.stdout,))
        self._thread.start()

    def started(self) -> str:
        """Waits for it; what the sign says."""
        return self._started.result(START_S)

    def stop(self) -> None:
        """And whatever it started."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._thread.join(STOP_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _listen(self, lines: IO[str]) -> None:
        with self._log.open("w") as log:
            for line in lines:
                log.write(line)
                log.flush()
                found = self._sign.search(line)
                if found and not self._started.done():
                    self._started.set_result(found.group(1))
        if not self._started.done():
            said = self._log.read_text()[-2000:]
            self._started.set_exception(RuntimeError(f"it did not start: {said}"))


class Cluster:
    """One master, and two workers with a core each, which cannot see what is hidden."""

    def __init__(self, folder: Path, hidden: HiddenFolder) -> None:
        """`folder` must be one that the workers can reach."""
        self._folder = folder
        self._hidden = hidden
        self._programs: list[Program] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        while self._programs:
            self._programs.pop().stop()

    def _start(self) -> None:
        master = Program(
            _spark_class("master.Master", port="0", webui_port="0"),
            folder=self._folder,
            name="master",
            sign=_MASTER_URL,
        )
        self._programs.append(master)
        self.url = master.started()
        workers = [self._worker(f"worker-{number}") for number in range(WORKER_COUNT)]
        for worker in workers:
            worker.started()

    def _worker(self, name: str) -> Program:
        home = self._hidden.give(self._folder / name)
        worker = Program(
            [
                *self._hidden.command_prefix,
                *_spark_class("worker.Worker", port="0", webui_port="0", cores="1", memory="1g"),
                *("--work-dir", str(home), self.url),
            ],
            folder=self._folder,
            name=name,
            sign=_REGISTERED,
            environment={
                "HOME": str(home),
                "SPARK_LOCAL_DIRS": str(home),
                "SPARK_WORKER_DIR": str(home),
                "TMPDIR": str(home),
            },
        )
        self._programs.append(worker)
        return worker


class ConnectServer:
    """A Spark Connect server with a driver and two tasks of its own."""

    def __init__(self, folder: Path, *, prefix: Sequence[str] = (), **options: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._options = options
        self._program: Program | None = None
        self.url = ""

    def __enter__(self) -> Self:
        with socket.create_server((LOOPBACK, 0)) as listening:
            port = listening.getsockname()[1]
        options = {
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
            **self._options,
        }
        command = [*self._prefix, str(_SPARK / "bin" / "spark-submit"), "--master", "local[2]"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for name, value in options.items():
            command += ["--conf", f"{name}={value}"]
        self._program = Program(
            [*command, "spark-internal"],
            folder=self._folder,
            name="connect",
            sign=_CONNECTED,
            environment={"HOME": str(self._folder), "SPARK_LOCAL_DIRS": str(self._folder)},
        )
        try:
            self._program.started()
        except BaseException:
            self._program.stop()
            raise
        self.url = f"sc://{LOOPBACK}:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._program is not None:
            self._program.stop()


class Driver:
    """A process with a session of its own: one process cannot have two."""

    def __init__(self, **arguments: Any) -> None:
        """Those of `lakebed.spark.session`."""
        self._pool = ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_begin, initargs=(arguments,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._pool.submit(_end).result()
        finally:
            self._pool.shutdown()

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """What the function, which is given the session first, returns there. What it raises is a
        `RuntimeError` here, with its text."""
        found, problem = self._pool.submit(_run, function, arguments).result()
        if problem is not None:
            raise RuntimeError(problem)
        result: Result = found
        return result


_SESSION: list[Any] = []


def _begin(arguments: Mapping[str, Any]) -> None:
    given = dict(arguments)
    if "remote" not in given:
        given["spark.executor.extraJavaOptions"] = OPTIONS
    _SESSION.append(session(**given))


def _run(function: Callable[..., Result], arguments: Sequence[Any]) -> tuple[Any, str | None]:
    try:
        return function(_SESSION[0], *arguments), None
    except Exception as error:  # noqa: BLE001 - not all of them can be sent
        return None, f"{type(error).__name__}: {error}"


def _end() -> None:
    _SESSION.pop().stop()


def _spark_class(name: str, **arguments: str) -> list[str]:
    command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    for argument, value in {"host": LOOPBACK, **arguments}.items():
        command += [f"--{argument.replace('_', '-')}", value]
    return command


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(java.home(java.find())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_NO_DAEMONIZE": "1",
    }
