"""A store in each of the ways that programs have it: code that uses one must not notice which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.aio import AsyncStore
from lakebed.client.address import Address
from lakebed.client.store import RemoteStore
from lakebed.store.store import Store
from tests.client.blocking import BlockingStore
from tests.http_api.live_api import HOST, LiveApi, open_api


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path) as opened:
        yield opened


@pytest.fixture(params=["embedded", "socket", "tcp", "asyncio"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "embedded":
        with Store.open(tmp_path / "store") as opened:
            yield opened
        return
    live: LiveApi = request.getfixturevalue("live_api")
    if request.param == "asyncio":
        address = Address(path=live.socket_path)
        with BlockingStore(lambda: AsyncStore(address, retry_s=2.0)) as blocking:
            yield blocking
        return
    path = live.socket_path if request.param == "socket" else ""
    with RemoteStore(Address(path=path, host=HOST, port=live.port), retry_s=2.0) as remote:
        yield remote


@pytest.fixture
def remote(live_api: LiveApi) -> Iterator[RemoteStore]:
    with RemoteStore(Address(path=live_api.socket_path), retry_s=2.0) as opened:
        yield opened
