"""`/healthz`, `/readyz` and `/metrics`: who gets them, and what they say."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.api.problems import Unauthenticated
from lakebed.base.errors import DiskError, SyncFailed
from lakebed.base.units import TIB
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.http_api.guard import Identity
from lakebed.http_api.origin_check import OriginCheck
from lakebed.keratin.config import TopicConfig
from lakebed.node import pages as node_pages
from lakebed.node import readiness
from lakebed.node.metrics import OPEN_METRICS, TEXT, NodeFacts
from lakebed.node.pages import Pages, is_local
from lakebed.node.readiness import Readiness, check_readiness, reserve_of
from lakebed.seglake.config import SeglakeConfig
from lakebed.store.store import Store
from tests.fakes.failing_disk import FailingDisk
from tests.http.serving import Answer, Serving, in_loop, serving
from tests.node.requests import request_of

FACTS = NodeFacts(requests=[], connections={}, replays_detected=0)
PROXIED = "X-Forwarded-For: 10.0.0.9"
STUCK = [
    f"{one} that refuse writes after a failed write, until the node is restarted: 1"
    for one in ("logs", "partitions")
]
GROUP = "groups that cannot be written now: 1"


class OneKey:
    """Whoever says `Authorization: right`."""

    async def identify(self, request: Request) -> Identity:
        if request.headers.get("authorization") != "right":
            raise Unauthenticated("an access key is needed")
        return Identity("LAKE")


class Scene:
    def __init__(self, store: Store, served: Serving) -> None:
        self.store = store
        self.served = served
        self.is_draining = False

    async def get(self, path: str, *headers: str, method: str = "GET") -> Answer:
        client = await self.served.connect()
        client.get(path, *headers, method=method)
        return await client.answer(has_body=method != "HEAD")


@asynccontextmanager
async def pages(
    root: Path, *, is_public: bool = False, answer_s: float = 60, **settings: Any
) -> AsyncIterator[Scene]:
    with Store.open(root, **settings) as store:
        scene: Scene
        made = Pages(
            store,
            guard=OneKey(),
            site=OriginCheck("here"),
            readiness=Readiness(store, is_draining=lambda: scene.is_draining, answer_s=answer_s),
            facts=lambda: FACTS,
            is_public=is_public,
        )
        handler = made.wrapped(lambda _: Response(200, body=b"a call"))
        async with serving(handler) as served:
            scene = Scene(store, served)
            yield scene


@in_loop
async def test_calls_go_past_the_pages(tmp_path: Path) -> None:
    async with pages(tmp_path) as scene:
        for path in ("/v1/state", "/", "/healthz/", "/metrics2", "//healthz"):
            assert (await scene.get(path)).body == b"a call"


@in_loop
async def test_the_process_lives_whatever_the_store_does(tmp_path: Path) -> None:
    async with pages(tmp_path) as scene:
        answer = await scene.get("/healthz?x=1")
        assert (answer.status, answer.body) == (200, b"ok\n")
        scene.is_draining = True
        scene.store.close()
        assert (await scene.get("/healthz")).status == 200
        assert (await scene.get("/healthz", method="HEAD")).headers["content-length"] == "3"


@in_loop
async def test_other_methods_are_not_taken(tmp_path: Path) -> None:
    async with pages(tmp_path) as scene:
        for path in ("/healthz", "/readyz", "/metrics"):
            answer = await scene.get(path, "Content-Length: 0", method="POST")
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@in_loop
async def test_it_is_ready_until_it_drains_or_its_store_is_closed(tmp_path: Path) -> None:
    async with pages(tmp_path) as scene:
        answer = await scene.get("/readyz")
        assert (answer.status, answer.body) == (200, b"ready\n")
        scene.is_draining = True
        answer = await scene.get("/readyz")
        assert (answer.status, answer.body) == (503, b"the node is draining\n")
        scene.is_draining = False
        scene.store.close()
        answer = await scene.get("/readyz")
        assert (answer.status, answer.body) == (503, b"the store is closed\n")


@in_loop
async def test_below_the_reserve_it_is_not_ready(tmp_path: Path) -> None:
    config = AofConfig(flush=FlushConfig(reserve_bytes=TIB))
    disk = FailingDisk(told_free_bytes=TIB - 1)
    async with pages(tmp_path, config=config, disk=disk) as scene:
        assert reserve_of(scene.store) == TIB
        answer = await scene.get("/readyz")
        assert answer.status == 503
        assert answer.body == (
            b"the disk has 1048575MiB free, and 1TiB are kept in reserve: writes are refused\n"
        )
        metrics = (await scene.get("/metrics")).body
        assert b"\nlakebed_disk_free_bytes 1.099511627775e" in metrics
        assert b"\nlakebed_disk_reserve_bytes 1.099511627776e" in metrics
        disk.told_free_bytes = TIB
        assert (await scene.get("/readyz")).status == 200


@pytest.mark.parametrize("free_bytes", [0, 4096])
@in_loop
async def test_on_a_full_disk_it_is_not_ready_though_nothing_is_kept_in_reserve(
    tmp_path: Path, free_bytes: int
) -> None:
    config = AofConfig(flush=FlushConfig(reserve_bytes=0))
    settings: dict[str, Any] = {
        "topic_config": TopicConfig(reserve_bytes=0),
        "object_config": SeglakeConfig(reserve_bytes=0),
    }
    disk = FailingDisk()
    async with pages(tmp_path, config=config, disk=disk, **settings) as scene:
        assert (await scene.get("/readyz")).status == 200
        disk.told_free_bytes = free_bytes
        answer = await scene.get("/readyz")
        assert answer.status == 503
        assert answer.body.startswith(b"the disk is full: ")


def test_without_inodes_it_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statvfs = os.statvfs

    def without_inodes(path: str, *, of: int) -> os.statvfs_result:
        facts = list(statvfs(path))
        facts[5:8] = [of, 0, 0]  # f_files, f_ffree, f_favail
        return os.statvfs_result(facts)

    with Store.open(tmp_path) as store:
        monkeypatch.setattr(os, "statvfs", partial(without_inodes, of=1000))
        problems = check_readiness(store).problems
        monkeypatch.setattr(os, "statvfs", partial(without_inodes, of=0))
        without_a_number = check_readiness(store).problems
        monkeypatch.undo()
    assert problems == ("the disk has 0 inodes free: no file can be created",)
    assert without_a_number == (), "this file system has as many as there is room for"


@in_loop
async def test_what_failed_makes_it_not_ready_and_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FailingDisk()
    async with pages(tmp_path, disk=disk) as scene:
        log, topic = scene.store.log("orders"), scene.store.topic("events", partitions=2)
        group = topic.group("billing")
        assert (await scene.get("/readyz")).status == 200
        disk.failing = "/topics/events/1/"
        with pytest.raises(SyncFailed):
            topic.append_batch([b"x"], partition=1).result()
        log.append_record(b"x")
        disk.failing = "/aof/orders/"
        with pytest.raises(DiskError):
            log.flush()
        disk.failing = "/groups/"
        topic.append_batch([b"y"], partition=0).result()
        with pytest.raises(DiskError):
            group.lease()
        for _ in range(2):
            answer = await scene.get("/readyz")
            assert (answer.status, answer.body.decode().splitlines()) == (503, [*STUCK, GROUP])
        assert b"lakebed_not_writable 3.0\n" in (await scene.get("/metrics")).body
        disk.failing = ""
        assert [one.value for one in group.lease()] == [b"y"], "it goes on in new files"
        answer = await scene.get("/readyz")
        assert answer.body.decode().splitlines() == STUCK, "these do not"
        told = [vars(one)["facts"] for one in caplog.records if "not_writable" in str(vars(one))]
        assert sorted(one["name"] for one in told) == ["events 0 billing", "events-1", "orders"]
        with contextlib.suppress(DiskError):  # of what was appended and is not durable
            scene.store.close()


@pytest.mark.parametrize("how", ["it is mounted for reading", "it belongs to somebody else"])
def test_a_folder_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    statvfs = os.statvfs

    def for_reading(path: str) -> os.statvfs_result:
        facts = list(statvfs(path))
        facts[8] |= os.ST_RDONLY  # f_flag
        return os.statvfs_result(facts)

    with Store.open(tmp_path) as store:
        assert check_readiness(store).problems == ()
        if how == "it is mounted for reading":
            monkeypatch.setattr(os, "statvfs", for_reading)
        else:
            monkeypatch.setattr(os, "access", lambda *_: False)
        assert check_readiness(store).problems == ("the store's folder cannot be written",)
        monkeypatch.undo()


def test_a_folder_that_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    with Store.open(tmp_path / "root") as store:
        (tmp_path / "root").rename(tmp_path / "moved")
        report = check_readiness(store)
        (tmp_path / "moved").rename(tmp_path / "root")
    assert report.problems == ("the store's folder cannot be read",), "the page is public"
    (failed,) = report.failed
    assert str(tmp_path) in str(failed.error)


@in_loop
async def test_a_disk_that_hangs_takes_one_thread_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, looks = threading.Event(), []

    def hang(store: Store) -> readiness.ReadinessReport:
        looks.append(store)
        may_go_on.wait(60)
        return readiness.ReadinessReport(0, 0, ())

    monkeypatch.setattr(readiness, "check_readiness", hang)
    async with pages(tmp_path, answer_s=0.01) as scene:
        for _ in range(3):
            answer = await scene.get("/readyz")
            assert (answer.status, answer.body) == (503, b"the disk has not answered for 0.01 s\n")
        assert (await scene.get("/healthz")).status == 200
        assert len(looks) == 1
        may_go_on.set()


@pytest.mark.parametrize("is_public", [False, True])
@in_loop
async def test_metrics_are_for_this_machine_for_keys_and_for_all_if_so_set(
    tmp_path: Path, is_public: bool
) -> None:
    async with pages(tmp_path, is_public=is_public) as scene:
        answer = await scene.get("/metrics")
        assert (answer.status, answer.headers["content-type"]) == (200, TEXT)
        assert b"lakebed_build_info{" in answer.body
        for headers in ([PROXIED], [PROXIED, "Authorization: wrong"], ["Authorization: wrong"]):
            answer = await scene.get("/metrics", *headers)
            assert answer.status == (200 if is_public else 401), headers
            assert is_public or "www-authenticate" in answer.headers
        assert (await scene.get("/metrics", PROXIED, "Authorization: right")).status == 200
        answer = await scene.get("/metrics", "Accept: application/openmetrics-text")
        assert answer.headers["content-type"] == OPEN_METRICS
        assert answer.body.endswith(b"# EOF\n")


@in_loop
async def test_many_who_scrape_at_once_are_told_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()

    def slow(*_: object, **__: object) -> bytes:
        may_go_on.wait(60)
        return b"text"

    monkeypatch.setattr(node_pages, "rendered", slow)
    async with pages(tmp_path) as scene:
        asked = {asyncio.ensure_future(scene.get("/metrics")) for _ in range(6)}
        refused: set[asyncio.Future[Answer]] = set()
        while len(refused) < 2:
            done, asked = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            refused |= done
        assert {one.result().status for one in refused} == {429}
        may_go_on.set()
        assert [one.body for one in await asyncio.gather(*asked)] == [b"text"] * 4


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
        ("", {}, True),  # a local socket
        ("10.0.0.1", {}, False),
        ("nonsense", {}, False),
        ("127.0.0.1", {"x_forwarded_for": "127.0.0.1"}, False),
        ("127.0.0.1", {"forwarded": "for=_x"}, False),
        ("127.0.0.1", {"via": "1.1 proxy"}, False),
        ("127.0.0.1", {"x_real_ip": "::1"}, False),
    ],
)
def test_who_comes_through_a_proxy_is_not_local(
    peer: str, headers: dict[str, str], expected: bool
) -> None:
    assert is_local(request_of("/metrics", peer=peer, **headers)) is expected
