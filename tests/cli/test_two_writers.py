"""Two programs that write at once: another's end, its death, and a lock without a socket."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.beside import EMBEDDING, LOGS_ALONE, program
from tests.cli.processes import CommandRunner, Environment, feed, pipe

pytestmark = pytest.mark.process

CONSUME = ("topic", "consume", "orders", "--from-beginning")


@pytest.fixture
def commands(tmp_path: Path, environment: Environment) -> Iterator[CommandRunner]:
    commands = CommandRunner(tmp_path, environment)
    yield commands
    commands.close()


def until_there(commands: CommandRunner, line: bytes) -> None:
    """It was produced, and acknowledged: a follower sees it."""
    follower = commands.start(*CONSUME, "--follow")
    while pipe(follower.stdout).readline() != line:
        assert follower.poll() is None
    follower.kill()
    follower.wait()


def test_two_commands_produce_at_once_and_the_second_survives_the_end_of_the_first(
    commands: CommandRunner,
) -> None:
    commands.run("topic", "create", "orders")
    first = commands.start("topic", "produce", "orders")
    feed(first, b"a1\n")
    until_there(commands, b"a1\n")
    second = commands.start("topic", "produce", "orders")
    feed(second, b"b1\n")
    until_there(commands, b"b1\n")
    feed(first, b"a2\n")
    out, err = first.communicate()
    assert (first.returncode, out, err) == (0, b"orders: appended 2 messages, up to 0:2\n", b"")
    # Now it opens the store itself.
    feed(second, b"b2\n")
    until_there(commands, b"b2\n")
    assert commands.run("topic", "produce", "orders", stdin=b"c1\n").returncode == 0
    out, err = second.communicate(b"b3\n")
    assert (second.returncode, err) == (0, b"")
    assert out == b"orders: appended 3 messages, up to 0:5\n"
    assert commands.run(*CONSUME).stdout == b"a1\nb1\na2\nb2\nc1\nb3\n"
    assert commands.run("topic", "verify", "orders").returncode == 0


def test_many_commands_at_once_all_succeed(commands: CommandRunner) -> None:
    commands.run("topic", "create", "orders", "--partitions", "2")
    running = [
        commands.start("topic", "produce", "orders", "--key-separator", ":") for _ in range(5)
    ]
    for number, process in enumerate(running):
        feed(process, b"".join(b"%d:%d\n" % (number, index) for index in range(2000)))
    for process in running:
        _, err = process.communicate()
        assert (process.returncode, err) == (0, b"")
    found = commands.run(*CONSUME, "--key-separator", ":").stdout.splitlines()
    assert len(found) == 10_000
    for number in range(5):
        mine = [line for line in found if line.startswith(b"%d:" % number)]
        assert mine == [b"%d:%d" % (number, index) for index in range(2000)]


def test_a_killed_writer_is_told_with_what_was_acknowledged(
    commands: CommandRunner, tmp_path: Path
) -> None:
    commands.run("topic", "create", "orders")
    with program(EMBEDDING, tmp_path / "root") as writer:
        produce = commands.start("topic", "produce", "orders")
        feed(produce, b"one\ntwo\n")
        until_there(commands, b"two\n")
        writer.kill()
        writer.wait()
        feed(produce, b"three\n")
        out, err = produce.communicate()
    acknowledged, why = err.decode().splitlines()
    assert (produce.returncode, out) == (75, b"")
    # The messages can be read before their response arrives, and the kill may be faster than it.
    assert acknowledged.removeprefix("lakebed: orders: acknowledged before the error: ") in (
        "2 messages, up to 0:1",
        "0 messages",
    )
    assert "root/lakebed.sock is not served" in why
    # Whoever comes next has it all.
    assert commands.run("topic", "produce", "orders", stdin=b"four\n").returncode == 0
    assert commands.run(*CONSUME).stdout == b"one\ntwo\nfour\n"


def test_a_writer_that_is_back_in_time_is_gone_on_with(
    commands: CommandRunner, tmp_path: Path
) -> None:
    commands.run("topic", "create", "orders")
    with program(EMBEDDING, tmp_path / "root") as writer:
        produce = commands.start("topic", "produce", "orders")
        feed(produce, b"one\n")
        until_there(commands, b"one\n")
        writer.kill()
        writer.wait()
        feed(produce, b"two\n")
        with program(EMBEDDING, tmp_path / "root"):
            out, err = produce.communicate(b"three\n")
    assert (produce.returncode, err) == (0, b"")
    assert out == b"orders: appended 3 messages, up to 0:2\n"
    assert commands.run(*CONSUME).stdout == b"one\ntwo\nthree\n"


def test_an_interrupt_ends_a_produce_through_a_socket_as_any_other(
    commands: CommandRunner, tmp_path: Path
) -> None:
    commands.run("topic", "create", "orders")
    with program(EMBEDDING, tmp_path / "root"):
        produce = commands.start("topic", "produce", "orders")
        feed(produce, b"one\n")
        until_there(commands, b"one\n")
        produce.send_signal(signal.SIGINT)
        assert produce.wait() == 130
        assert pipe(produce.stderr).read() == b"lakebed: interrupted\n"


def test_who_follows_a_group_through_a_socket_ends_by_an_interrupt(
    commands: CommandRunner, tmp_path: Path
) -> None:
    commands.run("topic", "produce", "orders", "--create", stdin=b"one\n")
    with program(EMBEDDING, tmp_path / "root"):
        consume = commands.start("topic", "consume", "orders", "--group", "billing", "--follow")
        assert pipe(consume.stdout).readline() == b"one\n"
        while b'"lag": 1' in commands.run("--json", "group", "lag", "orders", "billing").stdout:
            assert consume.poll() is None  # it acknowledges what it printed
        consume.send_signal(signal.SIGINT)
        assert consume.wait() == 130
        assert pipe(consume.stderr).read() == b""
        assert commands.run("topic", "consume", "orders", "--group", "billing").stdout == b""


def test_a_closed_pipe_gives_leased_messages_back(commands: CommandRunner, tmp_path: Path) -> None:
    lines = b"".join(b"%06d %s\n" % (number, b"x" * 200) for number in range(1000))
    commands.run("topic", "produce", "orders", "--create", stdin=lines)
    with program(EMBEDDING, tmp_path / "root"):
        consume = commands.start("topic", "consume", "orders", "--group", "billing")
        pipe(consume.stdout).close()
        assert consume.wait() == 141
        assert commands.run("topic", "consume", "orders", "--group", "billing").stdout == lines


def test_a_program_that_has_its_logs_alone_open_is_told(
    commands: CommandRunner, tmp_path: Path
) -> None:
    commands.run("aof", "append", "orders", stdin=b"one\n")
    with program(LOGS_ALONE, tmp_path / "root") as other:
        refused = commands.run("aof", "append", "orders", stdin=b"two\n")
    assert (refused.returncode, refused.stdout) == (75, b"")
    assert refused.stderr == (
        b"lakebed: root/lakebed.lock: locked by process %d; that process does not serve the "
        b"store's socket: it opened only logs (`AofManager`), opened the store with "
        b"`serves=False`, could not create the socket (see its log), is busy, or is still opening "
        b"or closing the store; try again, or stop that process\n" % other.pid
    )
    assert commands.run("aof", "cat", "orders").stdout == b"one\n"
