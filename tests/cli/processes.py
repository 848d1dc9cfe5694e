"""Runs commands in processes, several at a time if needed, and ends them after the test."""

from __future__ import annotations

import array
import fcntl
import subprocess
import sys
import termios
from pathlib import Path
from typing import IO

COMMAND = [sys.executable, "-m", "lakebed.cli", "--root", "root"]

Environment = dict[str, str]
Process = subprocess.Popen[bytes]


class CommandRunner:
    """Starts commands in one folder; `close` kills those that still run."""

    def __init__(self, folder: Path, environment: Environment) -> None:
        self._folder = folder
        self._environment = environment
        self._started: list[Process] = []

    def start(self, *arguments: str) -> Process:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self._folder,
            env=self._environment,
            input=stdin,
            capture_output=True,
            check=False,
        )

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def run_and_list_modules(
    folder: Path, environment: Environment, *commands: list[str]
) -> tuple[set[str], str]:
    """Runs commands in one process; returns the modules it imported, and the output."""
    program = "import sys\nfrom lakebed.cli.main import main\n"
    program += "".join(f"main({command!r})\n" for command in commands)
    program += "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines()), done.stdout


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def feed(process: Process, data: bytes) -> None:
    pipe(process.stdin).write(data)
    pipe(process.stdin).flush()


def lines(stream: IO[bytes] | None, count: int) -> list[bytes]:
    return [pipe(stream).readline() for _ in range(count)]


def unread_bytes(stream: IO[bytes] | None) -> int:
    """Returns how many written bytes the process has not read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe(stream).fileno(), termios.FIONREAD, count)
    return count[0]
