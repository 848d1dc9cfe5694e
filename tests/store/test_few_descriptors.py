"""A store with many more topics and logs than its process may have file descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 128

MANY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
from lakebed.store.store import Store

root, count = sys.argv[1], int(sys.argv[2])
with Store.open(root) as store:
    topics = [store.topic(f"topic-{{number}}") for number in range(count)]
    logs = [store.log(f"log-{{number}}") for number in range(count // 4)]
    for turn in range(3):
        for number, topic in enumerate(topics):
            value = b"%d-%d" % (number, turn)
            assert topic.append_batch([value]).result().base_offset == turn
        for log in logs:
            log.append_record(b"%d" % turn)
            log.flush()
    for number, topic in enumerate(topics):
        group = topic.group("readers")
        found = group.lease(max_messages=10)
        assert [one.value for one in found] == [b"%d-%d" % (number, turn) for turn in range(3)]
        for message in found:
            group.ack(message)
    for log in logs:
        assert [bytes(one.payload) for one in log.read()] == [b"0", b"1", b"2"]
    assert not store.failures()
with Store.open(root) as store:
    for number in range(count):
        assert store.topic(f"topic-{{number}}").group("readers").lag() == {{0: 0}}
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


@pytest.mark.process
def test_topics_and_logs_are_not_limited_by_descriptors(tmp_path: Path) -> None:
    done = run(MANY.format(limit=LIMIT), str(tmp_path / "root"), str(LIMIT // 2))
    assert done.returncode == 0, done.stderr[-4000:]


SEALED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
from lakebed.store.store import Store

with Store.open(sys.argv[1]) as store:
    topics = [store.topic(f"topic-{{number}}") for number in range(int(sys.argv[2]))]
    for number, topic in enumerate(topics):
        for turn in range(4):
            topic.append_batch([b"%d-%d" % (number, turn)]).result()
            topic.partitions[0].seal()
    for _ in range(2):
        for number, topic in enumerate(topics):
            found = [bytes(one.value) for one in topic.partitions[0].read(0)]
            assert found == [b"%d-%d" % (number, turn) for turn in range(4)]
    assert not store.failures()
"""


@pytest.mark.process
def test_sealed_segments_that_were_read_are_not_limited_by_descriptors(tmp_path: Path) -> None:
    done = run(SEALED.format(limit=LIMIT), str(tmp_path / "root"), str(LIMIT // 2))
    assert done.returncode == 0, done.stderr[-4000:]
