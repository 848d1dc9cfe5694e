"""Access keys through the API: a secret is told once, and never again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from lakebed.api import access_keys, media
from lakebed.api.access_keys import NewKey, SetEnabled
from lakebed.base.errors import InputError
from lakebed.seglake.errors import NoSuchAccessKey
from tests.http_api.live_api import LiveApi, open_api


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path) as live_api:
        yield live_api


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_a_key_is_created_listed_disabled_and_enabled(live_api: LiveApi, accept: str) -> None:
    made = live_api.call(access_keys.CREATE_KEY, body=NewKey("nightly ü", 3), accept=accept)
    key = made.info
    assert (key.label, key.inflight_max, key.is_enabled) == ("nightly ü", 3, True)
    opened = live_api.store.lake.keys.open(key.access_key)
    assert opened is not None
    assert opened[1] == made.secret, "the one that counts"
    assert live_api.call(access_keys.LIST_KEYS, accept=accept).keys == [key]
    name = {"access_key": key.access_key}
    for is_enabled in (False, False, True):
        state = live_api.call(
            access_keys.ENABLE_KEY, name, body=SetEnabled(is_enabled), accept=accept
        )
        assert state == replace(key, is_enabled=is_enabled)
        assert (live_api.store.lake.keys.open(key.access_key) is not None) is is_enabled


def test_no_answer_but_the_first_has_the_secret(live_api: LiveApi) -> None:
    made = live_api.call(access_keys.CREATE_KEY)
    secret = made.secret.encode()
    path = f"/v1/keys/{made.info.access_key}"
    assert secret not in live_api.ask("GET", "/v1/keys").body
    assert secret not in live_api.ask("PATCH", path, b'{"is_enabled": false}').body
    assert secret not in live_api.ask("PATCH", path, b'{"is_enabled": 1}').body


def test_a_key_that_is_not_there_is_not_found(live_api: LiveApi) -> None:
    for name in ("LAKENONE", "..", "\0", "ü"):
        with pytest.raises(NoSuchAccessKey):
            live_api.call(access_keys.ENABLE_KEY, {"access_key": name}, body=SetEnabled(False))


WRONG = [
    {"inflight_max": 0},
    {"inflight_max": -1},
    {"inflight_max": 10**30},
    {"inflight_max": 1 << 63},
    {"label": "x" * 257},
    {"label": "a\nb"},
    {"label": 5},
    {"policy": "root"},
]


@pytest.mark.parametrize("fields", WRONG, ids=str)
def test_what_is_no_key_is_refused(live_api: LiveApi, fields: dict[str, object]) -> None:
    answer = live_api.ask("POST", "/v1/keys", msgspec.json.encode(fields))
    assert answer.status in (400, 413), answer
    assert isinstance(answer.problem, InputError)
    assert live_api.call(access_keys.LIST_KEYS).keys == []
