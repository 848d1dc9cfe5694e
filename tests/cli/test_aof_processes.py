"""`lakebed aof` in several processes at a time, which are killed and interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from lakebed.host.store import Store
from tests.cli.conftest import Lakebed
from tests.cli.processes import run_and_list_modules

Environment = dict[str, str]
pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-m", "lakebed.cli", "--root", "root", "aof"]


@pytest.fixture
def started(tmp_path: Path, environment: Environment) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test started; what still runs at its end is killed."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


class CommandRunner:
    """Starts `lakebed aof` commands in one folder."""

    def __init__(
        self, folder: Path, environment: Environment, started: list[subprocess.Popen[bytes]]
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._started = started

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
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


@pytest.fixture
def commands(
    tmp_path: Path, environment: Environment, started: list[subprocess.Popen[bytes]]
) -> CommandRunner:
    return CommandRunner(tmp_path, environment, started)


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    pipe(process.stdin).write(data)
    pipe(process.stdin).flush()


def lines(stream: IO[bytes] | None, count: int) -> list[bytes]:
    return [pipe(stream).readline() for _ in range(count)]


def test_lines_go_in_and_come_out_through_pipes(commands: CommandRunner) -> None:
    data = b"".join(b"line %d \xff\x00\n" % number for number in range(10_000))
    done = commands.run("append", "orders", stdin=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"orders: appended 10000 records, the last is 0:")
    assert commands.run("cat", "orders").stdout == data


def test_a_follower_in_another_process_sees_what_is_appended(commands: CommandRunner) -> None:
    commands.run("append", "orders", stdin=b"one\ntwo\nthree\n")
    follower = commands.start("tail", "-f", "orders", "-n", "2")
    assert lines(follower.stdout, 2) == [b"two\n", b"three\n"]
    writer = commands.start("append", "orders")
    feed(writer, b"four\n")
    # The writer is alive and its input open: what it was given is handed on at once.
    assert lines(follower.stdout, 1) == [b"four\n"]
    assert commands.run("cat", "orders").stdout == b"one\ntwo\nthree\nfour\n"
    # Another one goes through the one that has the store open.
    assert commands.run("append", "orders", stdin=b"five\n").returncode == 0
    assert lines(follower.stdout, 1) == [b"five\n"]
    writer.communicate(b"six\n")
    assert writer.returncode == 0
    assert lines(follower.stdout, 1) == [b"six\n"]
    follower.send_signal(signal.SIGINT)
    assert follower.wait() == 130
    assert (pipe(follower.stdout).read(), pipe(follower.stderr).read()) == (b"", b"")


def test_a_follower_of_an_empty_log_sees_its_first_record(commands: CommandRunner) -> None:
    commands.run("append", "orders")
    follower = commands.start("tail", "--follow", "orders")
    commands.run("append", "orders", stdin=b"first\n")
    assert lines(follower.stdout, 1) == [b"first\n"]


def test_after_a_kill_the_log_is_a_prefix_and_whole(
    commands: CommandRunner, tmp_path: Path
) -> None:
    follower_sees = 2000
    commands.run("append", "orders", stdin=b"0\n")
    follower = commands.start("tail", "-f", "orders")
    writer = commands.start("append", "orders")
    for start in range(1, 20_000, 500):
        feed(writer, b"".join(b"%d\n" % number for number in range(start, start + 500)))
    seen = lines(follower.stdout, follower_sees)
    writer.kill()
    writer.wait()
    follower.kill()
    assert commands.run("verify", "orders").returncode == 0
    found = [int(line) for line in commands.run("cat", "orders").stdout.split()]
    assert found == list(range(len(found)))
    assert [int(line) for line in seen] == found[:follower_sees]
    # The next writer goes on behind them.
    commands.run("append", "orders", stdin=b"last\n")
    assert commands.run("tail", "orders", "-n", "1").stdout == b"last\n"
    assert commands.run("verify", "orders").returncode == 0


def test_a_reader_that_goes_away_ends_cat_quietly(
    commands: CommandRunner, tmp_path: Path, environment: Environment
) -> None:
    commands.run("append", "orders", stdin=b"x" * 100 + b"\n" + b"y\n" * 200_000)
    cat = commands.start("cat", "orders")
    assert lines(cat.stdout, 1) == [b"x" * 100 + b"\n"]
    pipe(cat.stdout).close()
    assert cat.wait() == 141
    assert pipe(cat.stderr).read() == b""


@pytest.mark.parametrize("closed", [0, 1])
def test_a_stream_that_was_closed_before_the_start_breaks_nothing(
    commands: CommandRunner, tmp_path: Path, environment: Environment, closed: int
) -> None:
    commands.run("append", "orders", stdin=b"one\n")
    command = "append" if closed == 0 else "cat"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}>&-', *COMMAND, command, "orders"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_alias_is_a_program_of_its_own(
    lakebed: Lakebed, tmp_path: Path, environment: Environment
) -> None:
    with Store.open(tmp_path / "root") as store:
        store.log("orders").append_record(b"one")
    done = subprocess.run(
        [sys.executable, "-m", "lakebed.cli.aof2_admin", "dump", "--root", "root", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == lakebed("--root", "root", "--json", "aof", "dump").out


def test_a_root_that_cannot_be_used_is_one_line(lakebed: Lakebed, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for command in (["append", "orders"], ["cat", "orders"], ["dump"]):
        done = lakebed("--root", "file", "aof", *command)
        assert done.error_line() == "file: is a file; the root must be a folder"
        assert done.exit_code == 64
    if os.geteuid() != 0:  # who may everything is refused nothing
        (tmp_path / "secret").mkdir(mode=0)
        done = lakebed("--root", "secret", "aof", "cat", "orders")
        assert done.error_line()
        assert done.exit_code in (66, 74)


def test_the_help_of_the_group_imports_no_engine(tmp_path: Path, environment: Environment) -> None:
    modules, _ = run_and_list_modules(tmp_path, environment, ["aof", "--help"])
    assert "lakebed.cli.aof" in modules
    engines = [name for name in modules if name.startswith(("lakebed.aof", "lakebed.kernels"))]
    assert not engines
