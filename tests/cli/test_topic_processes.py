"""`lakebed topic` in several processes at a time, which are killed and interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import (
    COMMAND,
    CommandRunner,
    Environment,
    feed,
    lines,
    pipe,
    run_and_list_modules,
)

pytestmark = pytest.mark.process


@pytest.fixture
def commands(tmp_path: Path, environment: Environment) -> Iterator[CommandRunner]:
    # As a program that nobody asked to flush everything.
    commands = CommandRunner(tmp_path, environment | {"PYTHONUNBUFFERED": ""})
    yield commands
    commands.close()


def test_lines_go_in_and_come_out_through_pipes(commands: CommandRunner) -> None:
    # Every byte but the newline; every third line is empty.
    data = b"".join(
        b"\n" if number % 3 == 2 else b"line %d \xff\x00\r%c\n" % (number, 128 + number % 128)
        for number in range(10_000)
    )
    assert commands.run("topic", "create", "orders").returncode == 0
    done = commands.run("topic", "produce", "orders", stdin=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"orders: appended 10000 messages, up to 0:9999\n"
    assert commands.run("topic", "consume", "orders", "--from-beginning").stdout == data


def test_keys_go_in_and_come_out_through_pipes(commands: CommandRunner) -> None:
    data = b"".join(
        b"%d\xfe|%s\n" % (number % 50, b"" if number % 4 == 0 else b"v|%d" % number)
        for number in range(10_000)
    )
    commands.run("topic", "create", "orders", "--partitions", "4")
    done = commands.run("topic", "produce", "orders", "--key-separator", "|", stdin=data)
    assert (done.returncode, done.stderr) == (0, b"")
    out = commands.run(
        "topic", "consume", "orders", "--from-beginning", "--key-separator", "|"
    ).stdout
    assert sorted(out.splitlines()) == sorted(data.splitlines())
    for key in (b"0\xfe|", b"7\xfe|", b"49\xfe|"):
        mine = [line for line in data.splitlines() if line.startswith(key)]
        assert [line for line in out.splitlines() if line.startswith(key)] == mine


def test_a_follower_in_another_process_sees_what_is_produced(commands: CommandRunner) -> None:
    commands.run("topic", "create", "orders", "--partitions", "2")
    follower = commands.start("topic", "consume", "orders", "--from-beginning", "--follow")
    writer = commands.start("topic", "produce", "orders")
    feed(writer, b"one\n")
    # The writer is alive and its input open: what it was given is handed on at once.
    assert lines(follower.stdout, 1) == [b"one\n"]
    # Another one goes through the one that has the store open.
    assert commands.run("topic", "produce", "orders", stdin=b"two\n").returncode == 0
    assert lines(follower.stdout, 1) == [b"two\n"]
    assert commands.run("topic", "verify", "orders").returncode == 0
    writer.communicate(b"three\n")
    assert writer.returncode == 0
    assert lines(follower.stdout, 1) == [b"three\n"]
    follower.send_signal(signal.SIGINT)
    assert follower.wait() == 130
    assert (pipe(follower.stdout).read(), pipe(follower.stderr).read()) == (b"", b"")


def test_without_a_start_only_what_comes_is_printed(commands: CommandRunner) -> None:
    commands.run("topic", "produce", "orders", "--create", stdin=b"old\n")
    consumer = commands.start("topic", "consume", "orders", "--max", "1")
    writer = commands.start("topic", "produce", "orders")
    # Nobody knows when it begins to look: so it is told again and again, until it has seen one.
    try:
        while consumer.poll() is None:
            feed(writer, b"new\n")
    except BrokenPipeError:
        pytest.fail("the writer ended")
    assert (consumer.returncode, pipe(consumer.stdout).read()) == (0, b"new\n")


def test_after_a_kill_the_topic_is_a_prefix_and_whole(commands: CommandRunner) -> None:
    seen_count = 2000
    commands.run("topic", "create", "orders")
    follower = commands.start(
        "topic", "consume", "orders", "--from-beginning", "--follow", "--max", str(seen_count)
    )
    writer = commands.start("topic", "produce", "orders")
    for start in range(0, 20_000, 500):
        feed(writer, b"".join(b"%d\n" % number for number in range(start, start + 500)))
    seen = lines(follower.stdout, seen_count)
    writer.kill()
    writer.wait()
    assert follower.wait() == 0
    assert commands.run("topic", "verify", "orders").returncode == 0
    consume = ("topic", "consume", "orders", "--from-beginning")
    before = [int(line) for line in commands.run(*consume).stdout.split()]
    assert before == list(range(len(before)))
    assert [int(line) for line in seen] == before[:seen_count]
    # The next writer goes on behind what recovery found, and that is no less.
    commands.run("topic", "produce", "orders", stdin=b"last\n")
    *found, last = commands.run(*consume).stdout.split()
    assert [int(line) for line in found] == list(range(len(found)))
    assert (len(found) >= len(before), last) == (True, b"last")
    assert commands.run("topic", "verify", "orders").returncode == 0


def test_a_reader_that_goes_away_ends_consume_quietly(commands: CommandRunner) -> None:
    data = b"x" * 100 + b"\n" + b"y\n" * 200_000
    commands.run("topic", "produce", "orders", "--create", stdin=data)
    consumer = commands.start("topic", "consume", "orders", "--from-beginning")
    assert lines(consumer.stdout, 1) == [b"x" * 100 + b"\n"]
    pipe(consumer.stdout).close()
    assert consumer.wait() == 141
    assert pipe(consumer.stderr).read() == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_a_group_could_not_print_is_not_settled(
    tmp_path: Path, environment: Environment, unbuffered: str
) -> None:
    # With one delivery allowed, a message whose delivery counts would become a dead letter.
    changed = {"LAKEBED_STROMA_DELIVERY_COUNT_MAX": "1", "PYTHONUNBUFFERED": unbuffered}
    commands = CommandRunner(tmp_path, environment | changed)
    data = b"".join(b"%06d%s\n" % (number, b"y" * 100) for number in range(3000))
    commands.run("topic", "produce", "orders", "--create", stdin=data)
    consumer = commands.start("topic", "consume", "orders", "--group", "billing")
    first = lines(consumer.stdout, 1)
    pipe(consumer.stdout).close()
    assert consumer.wait() == 141
    assert pipe(consumer.stderr).read() == b""
    rest = commands.run("topic", "consume", "orders", "--group", "billing").stdout
    assert first == [data.splitlines(keepends=True)[0]]
    # A pipe holds less than a lease's messages: none was printed for sure, and all come at once.
    assert rest == data
    commands.close()


def test_a_group_waits_for_messages_and_an_interrupt_ends_it(commands: CommandRunner) -> None:
    commands.run("topic", "produce", "orders", "--create", stdin=b"one\n")
    consumer = commands.start("topic", "consume", "orders", "--group", "billing", "--follow")
    assert lines(consumer.stdout, 1) == [b"one\n"]
    consumer.send_signal(signal.SIGINT)
    assert consumer.wait() == 130
    assert pipe(consumer.stderr).read() == b""


def test_what_a_killed_consumer_held_comes_again_when_its_lease_ends(
    tmp_path: Path, environment: Environment
) -> None:
    commands = CommandRunner(tmp_path, environment | {"LAKEBED_STROMA_LEASE_MS": "3000"})
    data = [b"%05d%s\n" % (number, b"x" * 100) for number in range(5000)]
    commands.run("topic", "produce", "orders", "--create", stdin=b"".join(data))
    consume = ("topic", "consume", "orders", "--group", "billing", "--follow")
    consumer = commands.start(*consume)
    printed = lines(consumer.stdout, 1500)
    consumer.kill()
    consumer.wait()
    printed += pipe(consumer.stdout).read().splitlines(keepends=True)
    lag = json.loads(commands.run("--json", "group", "lag", "orders", "billing").stdout)["lag"]
    assert lag >= 1000, "a pipe does not hold that much"
    rest = commands.run(*consume, "--max", str(lag))
    assert (rest.returncode, rest.stderr) == (0, b"")
    assert {*printed, *rest.stdout.splitlines(keepends=True)} >= set(data)
    commands.close()


@pytest.mark.parametrize("closed", [0, 1])
def test_a_stream_that_was_closed_before_the_start_breaks_nothing(
    commands: CommandRunner, tmp_path: Path, environment: Environment, closed: int
) -> None:
    commands.run("topic", "produce", "orders", "--create", stdin=b"one\n")
    command = ["produce", "orders"] if closed == 0 else ["consume", "orders", "--from-beginning"]
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}>&-', *COMMAND, "topic", *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("group", ["topic", "group"])
def test_the_help_of_a_group_imports_no_engine(
    tmp_path: Path, environment: Environment, group: str
) -> None:
    modules, _ = run_and_list_modules(tmp_path, environment, [group, "--help"])
    assert f"lakebed.cli.{group}" in modules
    engines = ("lakebed.keratin", "lakebed.stroma", "lakebed.aof", "lakebed.kernels")
    assert not [name for name in modules if name.startswith(engines)]
