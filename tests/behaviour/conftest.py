"""A store in the three ways that programs have it: embedded; through the socket beside it, while
another process has it open; by TLS and an access key, from that process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
import lakebed.aio
from lakebed.client.store import RemoteStore
from lakebed.host.store import Store
from tests.behaviour.host import KEY, Host
from tests.client.blocking import BlockingStore

RETRY_S = 5.0


@pytest.fixture(scope="package")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("host")) as started:
        yield started


@pytest.fixture(params=["embedded", "socket", "tls"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    root = tmp_path / "store"
    if kind == "embedded":
        with Store.open(root) as opened:
            yield opened
        return
    host: Host = request.getfixturevalue("host")
    place = host.open(root)
    try:
        with _connected(kind, place.root if kind == "socket" else place.url, host) as remote:
            assert not isinstance(remote, Store)
            yield remote
    finally:
        host.close(root)


def _connected(kind: str, address: Path | str, host: Host) -> Store | RemoteStore | BlockingStore:
    if kind == "socket":
        return lakebed.connect(address, retry_s=RETRY_S)
    options: dict[str, Any] = {
        "access_key": KEY.access_key,
        "secret_key": KEY.secret,
        "ca_file": host.ca_file,
        "retry_s": RETRY_S,
    }
    if kind == "asyncio":
        return BlockingStore(lambda: lakebed.aio.connect(address, **options))
    return lakebed.connect(address, **options)
