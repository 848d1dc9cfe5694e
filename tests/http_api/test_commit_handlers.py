"""Batch commits through the API: over the local socket and over TCP."""

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
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path) as live_api:
        live_api.store.topic("orders", partitions=2)
        yield live_api


def asked(*staged: StagedBatch, version: int = 1) -> BatchCommit:
    return BatchCommit("query 7", version, [StagedPartition(0, list(staged))])


def commit(live_api: LiveApi, body: BatchCommit, *, accept: str = media.MSGPACK) -> Committed:
    return live_api.call(COMMIT_BATCHES, NAMES, body=body, accept=accept)


def stored(live_api: LiveApi, partition: int = 0) -> list[bytes | None]:
    return values_of(live_api.store.topic("orders"), partition)


@pytest.mark.parametrize("kind", [media.MSGPACK, media.JSON])
def test_a_commit_that_is_repeated_is_stored_once(live_api: LiveApi, kind: str) -> None:
    parts = [
        StagedPartition(1, [StagedBatch(data=batch(b"x"))]),
        StagedPartition(0, [StagedBatch(data=batch(b"a", b"b") + batch(b"c"))]),
    ]
    for is_new in (True, False, False):
        found = commit(live_api, BatchCommit("query 7", 3, parts), accept=kind)
        assert found.partitions == [
            CommittedPartition(0, is_new, 0, 3),
            CommittedPartition(1, is_new, 0, 1),
        ]
    older = commit(live_api, BatchCommit("query 7", 2, parts), accept=kind)
    assert older.partitions[0] == CommittedPartition(0, False, None, 0)
    assert (stored(live_api, 0), stored(live_api, 1)) == ([b"a", b"b", b"c"], [b"x"])


def test_files_and_objects_are_fetched_by_the_store(live_api: LiveApi, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(batch(b"file"))
    live_api.store.bucket("stage").put("a/b", batch(b"object"))
    commit(
        live_api,
        asked(StagedBatch(path=str(tmp_path / "part")), StagedBatch(bucket="stage", key="a/b")),
    )
    assert stored(live_api) == [b"file", b"object"]


def test_what_is_no_plain_file_is_refused_and_not_waited_for(
    live_api: LiveApi, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    (tmp_path / "part").write_bytes(batch(b"file"))
    (tmp_path / "link").symlink_to(tmp_path / "part")
    paths = [
        tmp_path / "pipe",
        tmp_path / "ring",
        tmp_path / "part" / "below",
        live_api.socket_path,
    ]
    for path in (*paths, "/dev/zero", "/dev/null"):
        with pytest.raises(InputError, match="partition 0, batch 0"):
            commit(live_api, asked(StagedBatch(path=str(path))))
    commit(live_api, asked(StagedBatch(path=str(tmp_path / "link"))))
    assert stored(live_api) == [b"file"]


def test_over_the_network_no_file_is_read(live_api: LiveApi, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(batch(b"file"))
    for staged, status in (
        (StagedBatch(path=str(tmp_path / "part")), 400),
        (StagedBatch(path=str(tmp_path / "none")), 400),
        (StagedBatch(data=batch(b"inline")), 200),
    ):
        connection = http.client.HTTPConnection(HOST, live_api.port, timeout=60)
        body = media.encode(asked(staged), media.JSON)
        connection.request(
            "POST", target_of(COMMIT_BATCHES, NAMES), body, {"Content-Type": media.JSON}
        )
        answer = answer_of(connection.getresponse())
        connection.close()
        assert answer.status == status
        if status == 400:
            assert "local socket" in str(answer.problem)
    assert stored(live_api) == [b"inline"]


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
    live_api: LiveApi, staged: StagedBatch, error: type[LakebedError]
) -> None:
    with pytest.raises(error):
        commit(live_api, asked(StagedBatch(data=batch(b"good")), staged))
    assert stored(live_api) == []
    assert commit(live_api, asked(StagedBatch(data=batch(b"good")))).partitions[0].is_new


def test_wrong_names_and_numbers_are_refused(live_api: LiveApi) -> None:
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
            commit(live_api, BatchCommit(application, version, parts))
    with pytest.raises(NotFound):
        live_api.call(COMMIT_BATCHES, {"topic": "none"}, body=asked(*good))
    assert stored(live_api) == []
    assert live_api.store.topic_names() == ["orders"]
