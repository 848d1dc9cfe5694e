"""`lakebed s3` while another process writes, killed, interrupted, and through pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.host.store import Store
from tests.cli.processes import (
    COMMAND,
    CommandRunner,
    Environment,
    Process,
    feed,
    lines,
    pipe,
    run_and_list_modules,
    unread_bytes,
)

pytestmark = pytest.mark.process

BIG = bytes(range(256)) * (9 << 12)

WRITER = """
import sys
from lakebed.host.store import Store

with Store.open("root") as store:
    bucket = store.bucket("photos")
    for line in sys.stdin:
        key = line.strip()
        bucket.put(key, key.encode() * 1_000_000)
        print("stored", flush=True)
"""


@pytest.fixture
def commands(tmp_path: Path, environment: Environment) -> Iterator[CommandRunner]:
    """In a folder whose root has the bucket `photos`."""
    with Store.open(tmp_path / "root") as store:
        store.bucket("photos")
    commands = CommandRunner(tmp_path, environment | {"PYTHONUNBUFFERED": ""})
    yield commands
    commands.close()


@pytest.fixture
def writer(tmp_path: Path, environment: Environment) -> Iterator[Process]:
    """A program that embeds the store and puts an object for each line it is given."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        pipe(stream).close()


def put(writer: Process, key: str) -> None:
    feed(writer, f"{key}\n".encode())
    assert lines(writer.stdout, 1) == [b"stored\n"]


def test_everything_can_be_read_beside_a_writer(commands: CommandRunner, writer: Process) -> None:
    put(writer, "one")
    listed = json.loads(commands.run("--json", "s3", "buckets").stdout)
    assert [bucket["bucket"] for bucket in listed["buckets"]] == ["photos"]
    assert commands.run("s3", "get", "photos/one").stdout == b"one" * 1_000_000
    # What it does next is seen next.
    put(writer, "two")
    found = json.loads(commands.run("--json", "s3", "ls", "photos").stdout)
    assert [one["key"] for one in found["objects"]] == ["one", "two"]
    assert commands.run("s3", "get", "photos/two", "--range", "0-5").stdout == b"twotwo"
    assert commands.run("s3", "stat", "photos/two").returncode == 0
    verified = commands.run("s3", "verify")
    assert (verified.returncode, verified.stderr) == (0, b"")
    stored = commands.run("s3", "put", "photos/k", "-", stdin=b"x")
    assert (stored.returncode, stored.stderr) == (0, b"")
    assert commands.run("s3", "get", "photos/k").stdout == b"x"


def test_after_a_killed_writer_all_that_was_told_is_there(
    commands: CommandRunner, writer: Process
) -> None:
    for number in range(5):
        put(writer, f"{number}")
    feed(writer, b"unanswered\n")
    writer.kill()
    writer.wait()
    for number in range(5):
        found = commands.run("s3", "get", f"photos/{number}").stdout
        assert found == b"%d" % number * 1_000_000
    verified = commands.run("s3", "verify")
    assert (verified.returncode, verified.stderr) == (0, b"")
    # The next writer goes on.
    assert commands.run("s3", "put", "photos/next", "-", stdin=b"x").returncode == 0
    assert commands.run("s3", "verify").returncode == 0
    keys = json.loads(commands.run("--json", "s3", "ls", "photos").stdout)["objects"]
    assert {one["key"] for one in keys} - {"unanswered"} == {*"01234", "next"}


@pytest.mark.parametrize("size", [10, len(BIG)])
def test_an_interrupted_put_stores_nothing(commands: CommandRunner, size: int) -> None:
    process = commands.start("s3", "put", "photos/k", "-")
    feed(process, BIG[:size])
    while unread_bytes(process.stdin):  # until it waits for more
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert pipe(process.stderr).read() == b"lakebed: interrupted\n"
    assert commands.run("s3", "get", "photos/k").returncode == 66
    assert commands.run("s3", "ls", "photos", "--versions").stdout == b""
    assert commands.run("s3", "verify").returncode == 0


def test_a_file_that_is_put_can_be_interrupted_too(commands: CommandRunner, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as large:
        large.truncate(1 << 30)
    segments = tmp_path / "root" / "objects" / "segments"
    process = commands.start("s3", "put", "photos/k", "large")
    while not any(path.stat().st_size > 1 << 20 for path in segments.iterdir()):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert commands.run("s3", "get", "photos/k").returncode == 66
    assert commands.run("s3", "verify").returncode == 0
    assert sum(path.stat().st_size for path in segments.iterdir()) < 1 << 30


def test_a_killed_put_stores_nothing(commands: CommandRunner) -> None:
    commands.run("s3", "put", "photos/k", "-", stdin=b"before")
    process = commands.start("s3", "put", "photos/k", "-")
    feed(process, BIG)
    process.kill()
    process.wait()
    assert commands.run("s3", "get", "photos/k").stdout == b"before"
    assert commands.run("s3", "put", "photos/k", "-", stdin=b"after").returncode == 0
    assert commands.run("s3", "get", "photos/k").stdout == b"after"
    assert commands.run("s3", "verify").returncode == 0


def test_bytes_go_in_and_come_out_through_pipes(commands: CommandRunner) -> None:
    done = commands.run("s3", "put", "photos/k", "-", stdin=BIG)
    assert (done.returncode, done.stderr) == (0, b"")
    assert commands.run("s3", "get", "photos/k").stdout == BIG


def test_a_reader_that_goes_away_ends_get_quietly(commands: CommandRunner) -> None:
    commands.run("s3", "put", "photos/k", "-", stdin=BIG)
    process = commands.start("s3", "get", "photos/k")
    assert pipe(process.stdout).read(10) == BIG[:10]
    pipe(process.stdout).close()
    assert process.wait() == 141
    assert pipe(process.stderr).read() == b""


def test_a_full_disk_behind_standard_output_is_told(
    commands: CommandRunner, tmp_path: Path, environment: Environment
) -> None:
    commands.run("s3", "put", "photos/k", "-", stdin=BIG)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "s3", "get", "photos/k"],
            cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 75
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_waits_holds_nobody_up(commands: CommandRunner) -> None:
    commands.run("s3", "put", "photos/k", "-", stdin=BIG)
    process = commands.start("s3", "get", "photos/k")
    assert pipe(process.stdout).read(1) == BIG[:1]
    # Its pipe is full now; meanwhile others write, and the version it reads is removed.
    assert commands.run("s3", "put", "photos/k", "-", stdin=b"new").returncode == 0
    assert commands.run("s3", "rm", "photos/k").returncode == 0
    assert pipe(process.stdout).read() == BIG[1:]
    assert process.wait() == 0


def test_keys_that_are_no_text_are_refused(commands: CommandRunner) -> None:
    done = commands.run("s3", "get", os.fsdecode(b"photos/\xff"))
    assert done.returncode == 64
    assert done.stderr.startswith(b"lakebed: ")


def test_a_stream_that_was_closed_before_the_start_breaks_nothing(
    commands: CommandRunner, tmp_path: Path, environment: Environment
) -> None:
    for closed, command in ((0, ["put", "photos/k", "-"]), (1, ["get", "photos/k"])):
        done = subprocess.run(
            ["sh", "-c", f'exec "$0" "$@" {closed}>&-', *COMMAND, "s3", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_the_help_of_the_group_imports_no_engine(tmp_path: Path, environment: Environment) -> None:
    modules, _ = run_and_list_modules(
        tmp_path, environment, ["s3", "--help"], ["s3", "buckets", "--help"]
    )
    assert "lakebed.cli.s3" in modules
    engines = ("lakebed.seglake", "lakebed.store", "lakebed.aof", "lakebed.kernels", "apsw")
    assert not [name for name in modules if name.startswith(engines)]
