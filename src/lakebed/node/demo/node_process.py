"""Runs `lakebed serve` in its own process for the demo, on free ports that stay the same after a
restart.

The output and the log of the node go to files in the scratch folder. The demo reads the ready
message from there and, if the node does not start, the end of the log. Keyboard interrupts do not
reach the node; the demo stops it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import msgspec

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import LakebedError
from lakebed.base.files import read_file
from lakebed.base.runner import Runner
from lakebed.base.units import KIB, MIB
from lakebed.kernels.disk import real_disk

START_S: Final = 120.0
STOP_S: Final = 30.0
DRAIN_S: Final = 10

_LOOK_NS: Final = 20 * NS_PER_MS
_TAIL_BYTES: Final = 16 * KIB
_FILE_BYTES_MAX: Final = 64 * MIB
_KEPT_VARIABLES: Final = frozenset({"LAKEBED_KERNELS", "LAKEBED_TRACEBACK"})


class NodeFailed(LakebedError):
    """The node process ended before it was ready, or was not ready in time."""

    exit_code = 69


class ReadyLine(msgspec.Struct, frozen=True):
    """The ready message of a node, with the access key if the node has created one."""

    s3: str
    http: str
    region: str
    access_key: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        return f"ReadyLine({self.s3!r}, {self.http!r})"


class NodeProcess:
    """A node in its own process. `ready_line` is the ready message of its first start. Not
    thread-safe.
    """

    def __init__(
        self, root: Path, *, folder: Path, runner: Runner, environment: Mapping[str, str]
    ) -> None:
        """`folder` gets the output and log of the node. Variables in `environment` that are
        settings of a store are not passed to the node.
        """
        self._root = root
        self._folder = folder
        self._runner = runner
        self._environment = plain_environment(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._ports = (0, 0)
        self.ready_line = ReadyLine("", "", "")

    def start(self) -> None:
        """Starts the node and waits until it is ready. Raises `NodeFailed` with the end of its log
        if it does not start.
        """
        assert self._process is None, "the node is already running"
        self._starts += 1
        disk = real_disk()
        printed = self._folder / f"node-{self._starts}.json"
        log = self._folder / f"node-{self._starts}.log"
        with disk.create(printed) as out, disk.create(log) as errors:
            self._process = subprocess.Popen(  # noqa: S603 - runs this program
                self._command(),
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out.descriptor(),
                stderr=errors.descriptor(),
                start_new_session=True,
            )
        try:
            ready_line = self._ready(self._process, printed, log)
        except BaseException:  # interrupted: do not leave the process running
            self.kill()
            raise
        self._ports = (_port(ready_line.s3), _port(ready_line.http))
        if self._starts == 1:
            self.ready_line = ready_line

    def kill(self) -> None:
        """Kills the node with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stops the node with SIGTERM, so that it finishes running requests; kills it if it has not
        ended after `STOP_S`. Returns the exit code.
        """
        return self._end(signal.SIGTERM)

    def close(self) -> None:
        """Stops the node if it is running. Idempotent."""
        if self._process is not None:
            self._end(signal.SIGTERM)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def s3_options(self) -> dict[str, str]:
        """Returns the options with which the Spark format `lakebed.table` uses the node's S3
        endpoint.
        """
        return {
            "s3Endpoint": self.ready_line.s3,
            "accessKey": self.ready_line.access_key,
            "secretKey": self.ready_line.secret_key,
            "region": self.ready_line.region,
        }

    def _command(self) -> list[str]:
        s3_port, http_port = self._ports
        command = [sys.executable, "-m", "lakebed.cli", "--root", str(self._root), "--json"]
        command += ["serve", "--s3-port", str(s3_port), "--http-port", str(http_port)]
        return [*command, "--drain-seconds", str(DRAIN_S)]

    def _ready(self, process: subprocess.Popen[bytes], printed: Path, log: Path) -> ReadyLine:
        clock = self._runner.clock
        until_ns = clock.monotonic_ns() + round(START_S * NS_PER_S)
        while True:
            has_ended = process.poll() is not None
            ready_line = ready_line_in(_read(printed))
            if ready_line is not None and not has_ended:
                return ready_line
            if has_ended:
                why = log_tail(_read(log))
                raise NodeFailed(f"the node did not start (exit {process.returncode}): {why}")
            if clock.monotonic_ns() > until_ns:
                why = log_tail(_read(log))
                raise NodeFailed(f"the node was not ready after {START_S:.0f} s: {why}")
            self._runner.sleep_ns(_LOOK_NS)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        assert process is not None, "the node is not running"
        process.send_signal(number)
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        except BaseException:  # interrupted: do not leave the process running
            process.kill()
            process.wait()
            raise


def plain_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without the settings of Lakebed, so that the demo uses the
    defaults.
    """
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("LAKEBED_") or name in _KEPT_VARIABLES
    }


def ready_line_in(printed: bytes) -> ReadyLine | None:
    """Returns the ready message in the output of a node, or None if it is not complete yet."""
    try:
        return msgspec.json.decode(printed, type=ReadyLine)
    except msgspec.DecodeError:
        return None


def log_tail(log: bytes) -> str:
    """Returns the last non-empty line of a log, or only its error message if the line is a JSON
    error.
    """
    lines = log[-_TAIL_BYTES:].decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if not last:
        return "its log is empty"
    try:
        found = msgspec.json.decode(last)
    except msgspec.DecodeError:
        return last.removeprefix("lakebed: ")
    error = found.get("error") if isinstance(found, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else last


def _read(path: Path) -> bytes:
    return read_file(real_disk(), path, size_max=_FILE_BYTES_MAX)


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
