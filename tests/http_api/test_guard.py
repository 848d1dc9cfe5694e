"""Access keys at the API: who is let in, what the others are told, and what is logged of them."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.api.problems import Unauthenticated
from lakebed.base.clock import NS_PER_S
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.http_api.guard import Guard
from lakebed.http_api.key_guard import KeyGuard, read_basic
from lakebed.seglake.key_ring import Credentials, KeyRing
from lakebed.store.store import Store
from tests.http_api.live_api import Answer, LiveApi, open_api

FIRST = Credentials("root", "first-secret")


def basic(access_key: str, secret: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{access_key}:{secret}'.encode()).decode()}"}


def guarding(clock: SimulatedClock | None = None) -> Callable[[Store], Guard]:
    return lambda store: KeyGuard(KeyRing(FIRST, store.lake.keys), clock=clock)


def state(live_api: LiveApi, headers: dict[str, str] | None = None) -> Answer:
    return live_api.ask("GET", "/v1/state", headers=headers)


def test_first_credentials_and_keys_of_the_store_are_let_in(tmp_path: Path) -> None:
    with open_api(tmp_path, make_guard=guarding()) as live_api:
        made = live_api.store.lake.keys.create()
        assert state(live_api, basic(*FIRST)).status == 200
        for _ in range(2):  # looked up, and then known
            assert state(live_api, basic(made.info.access_key, made.secret)).status == 200
        assert live_api.store.lake.keys.get(made.info.access_key) is not None


def test_what_is_public_needs_no_key(tmp_path: Path) -> None:
    with open_api(tmp_path, make_guard=guarding()) as live_api:
        assert live_api.ask("GET", "/v1/health").status == 200
        assert live_api.ask("GET", "/v1/openapi.json").status == 200
        assert state(live_api).status == 401


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic " + b64encode(b"\xff\xfe:x").decode(),
        "Basic " + b64encode(b"no colon").decode(),
        "Basic " + b64encode(b":no key").decode(),
        "Basic " + b64encode(b"root:first-secret\0").decode(),
        "Basic " + b64encode(b"root:" + b"x" * 5000).decode(),
        "Bearer first-secret",
        "AWS4-HMAC-SHA256 Credential=root/20260101/us-east-1/s3/aws4_request",
        basic("root", "")["Authorization"],
        basic("root", "first-secre")["Authorization"],
        basic("root", "first-secret ")["Authorization"],
        basic("ROOT", "first-secret")["Authorization"],
        basic("unknown", "")["Authorization"],
        basic("unknown", "first-secret")["Authorization"],
    ],
)
def test_others_are_refused_and_asked_for_a_key(tmp_path: Path, said: str | None) -> None:
    with open_api(tmp_path, make_guard=guarding()) as live_api:
        answer = state(live_api, None if said is None else {"Authorization": said})
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith('Basic realm="lakebed"')
        assert isinstance(answer.problem, Unauthenticated)
        assert b"first-secret" not in answer.body
        assert state(live_api, basic(*FIRST)).status == 200


def test_a_wrong_secret_and_an_unknown_key_are_told_alike(tmp_path: Path) -> None:
    with open_api(tmp_path, make_guard=guarding()) as live_api:
        made = live_api.store.lake.keys.create()
        wrong = state(live_api, basic(made.info.access_key, "wrong")).json
        unknown = state(live_api, basic("LAKEUNKNOWN", "wrong")).json
    assert wrong["detail"] == unknown["detail"]


def test_a_key_that_is_disabled_is_refused_from_then_on(tmp_path: Path) -> None:
    with open_api(tmp_path, make_guard=guarding()) as live_api:
        keys = live_api.store.lake.keys
        made = keys.create()
        said = basic(made.info.access_key, made.secret)
        assert state(live_api, said).status == 200
        keys.disable(made.info.access_key)
        assert state(live_api, said).status == 401
        keys.enable(made.info.access_key)
        assert state(live_api, said).status == 200


def test_nothing_of_a_strangers_body_is_read(tmp_path: Path) -> None:
    with open_api(tmp_path, make_guard=guarding()) as live_api:
        head = b"POST /v1/topics HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n"
        told = live_api.send(head + b"Expect: 100-continue\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 401 "), "and not 100 Continue"
        assert b"Connection: close" in told


def test_refusals_are_logged_with_the_key_but_never_the_secret_and_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SimulatedClock()
    with (
        caplog.at_level(logging.WARNING),
        open_api(tmp_path, make_guard=guarding(clock)) as live_api,
    ):
        for _ in range(50):
            state(live_api, basic("intruder\n" + "x" * 100, "guessed-secret"))
        clock.advance(NS_PER_S)
        state(live_api, {"Authorization": "Bearer guessed-secret"})
    lines = [one for one in caplog.messages if one.startswith("access_refused")]
    assert len(lines) == 2
    assert "intruder" in lines[0]
    assert "\n" not in lines[0]
    assert "left_out=49" in lines[1]
    assert "guessed-secret" not in caplog.text


def test_a_key_has_so_many_requests_at_a_time(tmp_path: Path) -> None:
    """Of the one that is under way only the beginning of the body came."""
    with open_api(tmp_path, make_guard=guarding()) as live_api:
        made = live_api.store.lake.keys.create(inflight_max=1)
        said = basic(made.info.access_key, made.secret)
        slow = live_api.connect()
        slow.putrequest("POST", "/v1/topics")
        for name, value in {**said, "Content-Length": "100000"}.items():
            slow.putheader(name, value)
        slow.endheaders(b"{")
        live_api.in_loop(_until_under_way(live_api))
        refused = state(live_api, said)
        assert (refused.status, refused.json["code"]) == (429, "busy")
        assert refused.headers["retry-after"] == "1"
        assert state(live_api, basic(*FIRST)).status == 200, "who has none of its limit"
        slow.send(b"x" * 99_999)
        assert slow.getresponse().status == 400
        slow.close()
        assert state(live_api, said).status == 200


async def _until_under_way(live_api: LiveApi) -> None:
    while not live_api.api.service.budget.requests:
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Basic " + b64encode(b"key:secret").decode(), ("key", "secret")),
        ("basic  " + b64encode(b"key:with:colons").decode(), ("key", "with:colons")),
        ("BASIC " + b64encode("kéy:".encode()).decode(), ("kéy", "")),
    ],
)
def test_basic_is_read(said: str, found: tuple[str, str]) -> None:
    assert read_basic(said) == found
