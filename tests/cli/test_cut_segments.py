"""A sealed segment that is cut while a process reads it: an error of that segment, and no more.

Under a map it would be SIGBUS, which ends the process without a word.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lakebed
from lakebed.base.errors import LakebedError
from tests.cli.processes import CommandRunner, Environment, lines
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

pytestmark = pytest.mark.process

MIB = 1 << 20
SETTINGS = """\
[keratin]
segment_bytes = "8MiB"

[aof]
segment_bytes = "8MiB"
"""
LEFT_BYTES = 4 * MIB  # of a segment that was cut
COUNT = 24  # messages of 1 MiB less a little, in three segments
EMBEDDED = """
import os, sys
import lakebed
from lakebed.base.errors import LakebedError

def attempt(what, read):
    try:
        print(what, sum(1 for _ in read()))
    except LakebedError as error:
        print(what, type(error).__name__, "-", error)

with lakebed.Store.open("root") as store:
    log, partition = store.log("orders"), store.topic("clicks").partition(0)
    attempt("log", log.read)
    attempt("topic", partition.read)
    for path in sys.argv[1:]:
        os.truncate(path, 4 << 20)
    attempt("log", log.read)
    attempt("topic", partition.read)
    print("log", len(log.get(log.segments()[-1].segment_id << 32 | 64).payload))
    print("topic", len(next(iter(partition.read(23))).value))
"""


def payload(number: int) -> bytes:
    return b"%08d" % number + b"x" * (MIB - 1024)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "lakebed.toml").write_text(SETTINGS)
    with lakebed.Store.open(root) as store:
        log, topic = store.log("orders"), store.topic("clicks", partitions=1)
        for number in range(COUNT):
            log.flush(log.append_record_with_timeout(payload(number), 60))
            topic.append_batch([payload(number)]).result()
        log.seal_current_segment()
    return root


def first_segment(root: Path, kind: str) -> Path:
    folder = root / ("aof/orders/segments" if kind == "log" else "topics/clicks/0/segments")
    return min(folder.glob("*.seg" if kind == "log" else "*.log"))


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(LEFT_BYTES)


def test_a_reader_of_a_segment_that_is_cut_gets_an_error_and_reads_the_others(
    root: Path, environment: Environment
) -> None:
    paths = [first_segment(root, kind) for kind in ("log", "topic")]
    done = subprocess.run(
        [sys.executable, "-c", EMBEDDED, *paths],
        cwd=root.parent, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    whole_log, whole_topic, cut_log, cut_topic, log_after, topic_after = done.stdout.splitlines()
    assert (whole_log, whole_topic) == (f"log {COUNT}", f"topic {COUNT}")
    assert cut_log.startswith("log Corrupt - ")
    assert paths[0].name in cut_log
    assert cut_topic.startswith("topic Corrupt - ")
    assert paths[1].name in cut_topic
    assert (log_after, topic_after) == (f"log {MIB - 1016}", f"topic {MIB - 1016}")


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("topic", ("topic", "consume", "clicks", "--from-beginning")),
        ("log", ("aof", "cat", "orders")),
    ],
)
def test_a_command_that_prints_a_segment_that_is_cut_ends_with_an_error(
    root: Path, environment: Environment, kind: str, command: tuple[str, ...]
) -> None:
    commands = CommandRunner(root.parent, environment)
    try:
        process = commands.start(*command)
        # It cannot print more than a pipe holds before somebody reads it.
        assert lines(process.stdout, 1)[0].startswith(b"00000000xxx")
        path = first_segment(root, kind)
        cut(path)
        out, err = process.communicate()
        assert process.returncode == 65
        assert str(path.relative_to(root.parent)).encode() in err
        assert out.count(b"\n") < COUNT - 1
    finally:
        commands.close()


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("aof", "verify", "orders"),
        ("topic", "verify", "clicks"),
        ("aof", "repair", "orders", "--dry-run"),
        ("aof", "repair", "orders"),
        ("topic", "repair", "clicks", "--dry-run"),
        ("topic", "repair", "clicks"),
    ],
)
def test_a_segment_that_was_cut_is_told_by_verify_and_repair(
    root: Path, environment: Environment, command: tuple[str, ...]
) -> None:
    paths = [first_segment(root, kind) for kind in ("log", "topic")]
    for path in paths:
        cut(path)
    commands = CommandRunner(root.parent, environment)
    done = commands.run(*command)
    assert done.returncode == (0 if "repair" in command else 65)
    said = done.stdout + done.stderr
    wanted = paths if len(command) == 1 else [paths["topic" in command]]
    for path in wanted:
        assert path.name.encode() in said


def test_a_node_answers_an_error_for_a_segment_that_was_cut_and_goes_on(root: Path) -> None:
    with Endpoint(root) as node:
        with lakebed.connect(node.http_url, access_key=ACCESS_KEY, secret_key=SECRET_KEY) as store:
            log, partition = store.log("orders"), store.topic("clicks").partition(0)
            assert sum(1 for _ in partition.read()) == COUNT
            assert sum(1 for _ in log.read()) == COUNT
            paths = [first_segment(root, kind) for kind in ("log", "topic")]
            for path in paths:
                cut(path)
            with pytest.raises(LakebedError, match=paths[0].name):
                list(log.read())
            with pytest.raises(LakebedError, match=paths[1].name):
                list(partition.read())
            assert len(next(iter(partition.read(COUNT - 1))).value or b"") == MIB - 1016
            store.bucket("photos").put("a", b"b")
        assert node.stop() == 0
