"""Batch commits through the door: over the local socket and over TCP."""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.api import media
from lakebed.api.problems import Refused
from lakebed.api.topics import (
    COMMIT_BATCHES,
    BatchCommit,
    Committed,
    StagedBatch,
    StagedPartition,
)
from lakebed.base.errors import InputError, LakebedError, NotFound
from lakebed.store.staged_batch import CommittedPartition
from tests.http_api.live_api import HOST, LiveApi, answer_of, open_api, target_of
from tests.store.batch_commits import batch, values_of

NAMES = {"topic": "orders"}


@pytest.fixture
def door(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path) as door:
        door.store.topic("orders", partitions=2)
        yield door


def asked(*staged: StagedBatch, version: int = 1) -> BatchCommit:
    return BatchCommit("query 7", version, [StagedPartition(0, list(staged))])


def commit(door: LiveApi, body: BatchCommit, *, accept: str = media.MSGPACK) -> Committed:
    return door.call(COMMIT_BATCHES, NAMES, body=body, accept=accept)


def stored(door: LiveApi, partition: int = 0) -> list[bytes | None]:
    return values_of(door.store.topic("orders"), partition)


@pytest.mark.parametrize("kind", [media.MSGPACK, media.JSON])
def test_a_commit_that_is_repeated_is_stored_once(door: LiveApi, kind: str) -> None:
    parts = [
        StagedPartition(1, [StagedBatch(data=batch(b"x"))]),
        StagedPartition(0, [StagedBatch(data=batch(b"a", b"b") + batch(b"c"))]),
    ]
    for is_new in (True, False, False):
        found = commit(door, BatchCommit("query 7", 3, parts), accept=kind)
        assert found.partitions == [
            CommittedPartition(0, is_new, 0, 3),
            CommittedPartition(1, is_new, 0, 1),
        ]
    older = commit(door, BatchCommit("query 7", 2, parts), accept=kind)
    assert older.partitions[0] == CommittedPartition(0, False, None, 0)
    assert (stored(door, 0), stored(door, 1)) == ([b"a", b"b", b"c"], [b"x"])


def test_files_and_objects_are_fetched_by_the_store(door: LiveApi, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(batch(b"file"))
    door.store.bucket("stage").put("a/b", batch(b"object"))
    commit(
        door,
        asked(StagedBatch(path=str(tmp_path / "part")), StagedBatch(bucket="stage", key="a/b")),
    )
    assert stored(door) == [b"file", b"object"]


def test_what_is_no_plain_file_is_refused_and_not_waited_for(door: LiveApi, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    (tmp_path / "part").write_bytes(batch(b"file"))
    (tmp_path / "link").symlink_to(tmp_path / "part")
    paths = [tmp_path / "pipe", tmp_path / "ring", tmp_path / "part" / "below", door.socket_path]
    for path in (*paths, "/dev/zero", "/dev/null"):
        with pytest.raises(InputError, match="partition 0, batch 0"):
            commit(door, asked(StagedBatch(path=str(path))))
    commit(door, asked(StagedBatch(path=str(tmp_path / "link"))))
    assert stored(door) == [b"file"]


def test_over_the_network_no_file_is_read(door: LiveApi, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(batch(b"file"))
    for staged, status in (
        (StagedBatch(path=str(tmp_path / "part")), 400),
        (StagedBatch(path=str(tmp_path / "none")), 400),
        (StagedBatch(data=batch(b"inline")), 200),
    ):
        connection = http.client.HTTPConnection(HOST, door.port, timeout=60)
        body = media.encode(asked(staged), media.JSON)
        connection.request(
            "POST", target_of(COMMIT_BATCHES, NAMES), body, {"Content-Type": media.JSON}
        )
        answer = answer_of(connection.getresponse())
        connection.close()
        assert answer.status == status
        if status == 400:
            assert "local socket" in str(answer.problem)
    assert stored(door) == [b"inline"]


@pytest.mark.parametrize(
    ("staged", "error"),
    [
        (StagedBatch(), Refused),
        (StagedBatch(data=batch(b"x"), path="/x"), Refused),
        (StagedBatch(data=batch(b"x"), bucket="b", key="k"), Refused),
        (StagedBatch(bucket="stage"), Refused),
        (StagedBatch(key="k"), Refused),
        (StagedBatch(path="relative"), Refused),
        (StagedBatch(path="/a\0b"), Refused),
        (StagedBatch(path="/there/is/none"), NotFound),
        (StagedBatch(path="/"), InputError),
        (StagedBatch(bucket="none", key="k"), NotFound),
        (StagedBatch(bucket="../..", key="k"), LakebedError),
        (StagedBatch(data=b""), InputError),
        (StagedBatch(data=batch(b"x")[:-1]), InputError),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_changed(
    door: LiveApi, staged: StagedBatch, error: type[LakebedError]
) -> None:
    with pytest.raises(error):
        commit(door, asked(StagedBatch(data=batch(b"good")), staged))
    assert stored(door) == []
    assert commit(door, asked(StagedBatch(data=batch(b"good")))).partitions[0].is_new


def test_wrong_names_and_numbers_are_refused(door: LiveApi) -> None:
    good = [StagedBatch(data=batch(b"x"))]
    for application, version, partitions, error in (
        ("", 1, [0], InputError),
        ("x" * 257, 1, [0], InputError),
        ("a", -1, [0], InputError),
        ("a", 1 << 63, [0], InputError),
        ("a", 1, [2], NotFound),
        ("a", 1, [-1], NotFound),
        ("a", 1, [0, 0], InputError),
    ):
        parts = [StagedPartition(number, good) for number in partitions]
        with pytest.raises(error):
            commit(door, BatchCommit(application, version, parts))
    with pytest.raises(NotFound):
        door.call(COMMIT_BATCHES, {"topic": "none"}, body=asked(*good))
    assert stored(door) == []
    assert door.store.topic_names() == ["orders"]
