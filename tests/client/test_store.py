"""The store itself, its pins and long work; keys and certificates on a port."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakebed.api import admin
from lakebed.api.problems import Unauthenticated
from lakebed.base.damage_ledger import LOGS, Loss
from lakebed.base.errors import Busy, Closed, InputError, NotFound
from lakebed.client.address import Address, address_of
from lakebed.client.maintenance import run_job
from lakebed.client.store import RemoteStore
from lakebed.http.tls import TlsFiles
from lakebed.http_api.guard import Guard
from lakebed.http_api.key_guard import KeyGuard
from lakebed.seglake.key_ring import Credentials, KeyRing
from lakebed.store.store import Store
from tests.fakes.function_job import FunctionJob
from tests.http.certificates import write_pair
from tests.http_api.live_api import LiveApi, open_api

FIRST = Credentials("root", "first-secret")


def guarding(store: Store) -> Guard:
    return KeyGuard(KeyRing(FIRST, store.lake.keys))


@contextmanager
def working(
    folder: Path, run: Callable[[Any, Mapping[str, Any], Any, Any], dict[str, Any]]
) -> Iterator[RemoteStore]:
    jobs = {"test": FunctionJob(run)}
    with (
        open_api(folder, api_options={"jobs": jobs}) as live_api,
        RemoteStore(Address(path=live_api.socket_path)) as remote,
    ):
        yield remote


def test_a_store_tells_how_it_is(remote: RemoteStore, live_api: LiveApi) -> None:
    remote.topic("orders")
    remote.log("events")
    assert remote.health().status == "ok"
    state = remote.state()
    assert state.root == os.path.abspath(live_api.store.root)
    assert (state.topics, state.logs, state.process_id) == (["orders"], ["events"], os.getpid())
    assert "keratin" in remote.counters()
    assert "keratin" in remote.configuration()
    assert remote.address in repr(remote)


def test_what_is_lost_is_listed_and_acknowledged(remote: RemoteStore, live_api: LiveApi) -> None:
    live_api.store.damage.record(Loss(engine=LOGS, name="events", problem="bad"))
    assert remote.damage.list() == live_api.store.damage.list()
    [record] = remote.damage.list()
    assert remote.damage.acknowledge(record.id).acknowledged_ms is not None
    assert live_api.store.damage.unacknowledged_count == 0
    with pytest.raises(NotFound):
        remote.damage.acknowledge(99)


def test_pins_are_made_renewed_and_released(store: Any) -> None:
    pin = store.pins.pin("l", segment_start=0, segment_end=2, duration_ms=60_000, owner="me")
    other = store.pins.pin_offsets("t", 0, start=5, end=9, duration_ms=60_000, owner="me")
    assert (store.pins.active(), store.pins.active_offsets()) == ([pin], [other])
    assert store.pins.renew(pin.pin_id, duration_ms=120_000).expires_ms > pin.expires_ms
    assert store.pins.renew(other.pin_id, duration_ms=120_000).end == 9
    store.pins.release(pin.pin_id)
    store.pins.release(pin.pin_id)
    assert store.pins.active() == []
    with pytest.raises(NotFound):
        store.pins.renew(pin.pin_id, duration_ms=1)
    with pytest.raises(InputError):
        store.pins.pin("l", segment_start=2, segment_end=2, duration_ms=60_000, owner="me")


def test_several_pins_are_renewed_and_released_at_once(store: Any) -> None:
    ids = [
        store.pins.pin_offsets("t", number, start=0, end=9, duration_ms=60_000, owner="me").pin_id
        for number in range(3)
    ]
    store.pins.release(ids[0])
    assert store.pins.renew_all(ids, duration_ms=120_000) == ids[1:]
    lasting = [pin.expires_ms - pin.created_ms for pin in store.pins.active_offsets()]
    assert min(lasting) >= 120_000
    store.pins.release_all(ids)
    assert store.pins.active_offsets() == []


def test_long_work_is_waited_for_and_tells_how_far_it_is(tmp_path: Path) -> None:
    def run(_: Any, arguments: Mapping[str, Any], tell: Any, __: Any) -> dict[str, Any]:
        tell(2, 3)
        return {"sum": sum(arguments["numbers"])}

    told: list[tuple[int, int]] = []
    with working(tmp_path, run) as remote:
        found = run_job(
            remote._caller, "test", {"numbers": [1, 2]}, progress=lambda *at: told.append(at)
        )
        assert found == {"sum": 3}
        assert told[-1] == (2, 3)
        with pytest.raises(InputError):
            run_job(remote._caller, "no such kind", {})


def test_long_work_that_fails_raises_what_it_failed_with(tmp_path: Path) -> None:
    def run(*_: Any) -> dict[str, Any]:
        raise NotFound("what it wanted is gone")

    with working(tmp_path, run) as remote, pytest.raises(NotFound, match="wanted is gone"):
        run_job(remote._caller, "test", {})


def test_whoever_is_interrupted_cancels_the_work(tmp_path: Path) -> None:
    def run(_: Any, __: Any, tell: Any, is_cancelled: Any) -> dict[str, Any]:
        tell(0, 1)
        while not is_cancelled():
            pass
        return {}

    def interrupted(*_: int) -> None:
        raise KeyboardInterrupt

    with working(tmp_path, run) as remote:
        with pytest.raises(KeyboardInterrupt):
            run_job(remote._caller, "test", {}, progress=interrupted)
        (state,) = remote._caller.call(admin.LIST_WORK).works
        ended = remote._caller.call(
            admin.GET_WORK, {"work": state.work_id}, query=admin.WaitQuery(wait_ms=30_000)
        )
        assert ended.state == "cancelled"


def test_work_that_another_cancelled_is_no_success(tmp_path: Path) -> None:
    def run(_: Any, __: Any, ___: Any, is_cancelled: Any) -> dict[str, Any]:
        while not is_cancelled():
            pass
        return {}

    with working(tmp_path, run) as remote:

        def cancel(*_: int) -> None:
            (state,) = remote._caller.call(admin.LIST_WORK).works
            remote._caller.call(admin.CANCEL_WORK, {"work": state.work_id})

        with pytest.raises(Busy, match="cancelled"):
            run_job(remote._caller, "test", {}, progress=cancel)


def test_a_closed_store_says_so(live_api: LiveApi) -> None:
    store = RemoteStore(Address(path=live_api.socket_path))
    topic = store.topic("orders")
    follower = topic.partition(0).follow()
    store.close()
    store.close()
    for call in (store.logs, topic.partition(0).high_watermark, follower.next_batch):
        with pytest.raises(Closed):
            call()
    with pytest.raises(Closed):
        topic.append_batch([b"x"])


@pytest.mark.parametrize(
    ("access_key", "secret_key"), [("root", "mistyped"), ("nobody", "first-secret"), (None, None)]
)
def test_wrong_credentials_are_refused_and_not_told(
    tmp_path: Path, access_key: str | None, secret_key: str | None
) -> None:
    with open_api(tmp_path, make_guard=guarding) as live_api:
        url = f"http://127.0.0.1:{live_api.port}"
        with RemoteStore.open(url, access_key=access_key, secret_key=secret_key) as store:
            assert store.health().status == "ok"
            with pytest.raises(Unauthenticated) as told:
                store.logs()
            assert secret_key is None or secret_key not in str(told.value)
        assert live_api.store.logs() == []


def test_a_key_of_the_store_is_let_in_over_tls(tmp_path: Path) -> None:
    write_pair(tmp_path, "localhost")
    with open_api(tmp_path, make_guard=guarding) as live_api:
        made = live_api.store.lake.keys.create()
        tls = TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem")
        port = live_api.in_loop(live_api.api.listen("127.0.0.1", 0, tls=tls))
        with RemoteStore.open(
            f"https://{made.info.access_key}:{made.secret}@localhost:{port}",
            ca_file=tmp_path / "cert.pem",
        ) as store:
            assert store.topic("orders").append_batch([b"a"]).result() == (0, 1)
            assert [one.value for one in store.topic("orders").partition(0).read()] == [b"a"]
            bucket = store.bucket("photos")
            bucket.put("x", iter([b"y" * 1_500_000, b"z"]))
            assert bucket.read("x") == b"y" * 1_500_000 + b"z"
            live_api.store.lake.keys.disable(made.info.access_key)
            with pytest.raises(Unauthenticated):
                store.logs()


def test_a_context_of_ones_own_is_used(tmp_path: Path) -> None:
    write_pair(tmp_path, "localhost")
    context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    with open_api(tmp_path) as live_api:
        tls = TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem")
        port = live_api.in_loop(live_api.api.listen("127.0.0.1", 0, tls=tls))
        url = f"https://localhost:{port}"
        with RemoteStore(address_of(url, context=context, environment={})) as store:
            assert store.health().status == "ok"
