"""A node whose file descriptors are few, and whoever wants to have them all."""

from __future__ import annotations

import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.test_serve_http import ask, basic, connection_to
from tests.clients.nodes import s3_client
from tests.clients.test_over_tls import write_certificate
from tests.host.local_clients import Client
from tests.s3.endpoint import Endpoint

pytestmark = pytest.mark.process

FEW = 256


@contextmanager
def idle_connections(url: str, count: int) -> Iterator[None]:
    place = urlsplit(url)
    with ExitStack() as stack:
        for _ in range(count):
            one = socket.create_connection((place.hostname or "", place.port or 0), timeout=60)
            stack.enter_context(one)
        yield


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Endpoint(tmp_path / "root", descriptor_limits=(FEW, hard)) as endpoint:
        assert resource.prlimit(endpoint.pid, resource.RLIMIT_NOFILE) == (hard, hard)


@pytest.mark.parametrize("is_secure", [False, True])
def test_idle_connections_without_a_key_keep_nobody_out_and_poison_nothing(
    tmp_path: Path, is_secure: bool
) -> None:
    log = tmp_path / "node.log"
    certificate, key = write_certificate(tmp_path)
    arguments = ("--tls-cert", str(certificate), "--tls-key", str(key))
    tls = ssl.create_default_context(cafile=certificate) if is_secure else None
    with ExitStack() as stack:
        endpoint = stack.enter_context(
            Endpoint(
                tmp_path / "root",
                *(arguments if is_secure else ()),
                log=log,
                descriptor_limits=(FEW, FEW),
            )
        )
        known = connection_to(endpoint.http_url, tls=tls)
        assert ask(known, "/v1/state", basic())[0] == 200
        local = Client(endpoint.root)
        local.ask("PUT", "/v1/logs/orders")
        for url in (endpoint.url, endpoint.http_url):
            stack.enter_context(idle_connections(url, FEW + 50))
        client = s3_client(endpoint, verify=str(certificate))
        client.create_bucket(Bucket="photos")
        client.put_object(Bucket="photos", Key="key", Body=b"x" * 3_000_000)
        assert client.get_object(Bucket="photos", Key="key")["Body"].read() == b"x" * 3_000_000
        client.close()
        for number in range(FEW // 4):
            local.ask("PUT", f"/v1/topics/topic-{number}", {"partitions": 1})
            local.ask("POST", f"/v1/topics/topic-{number}/messages", {"values": ["eA=="]})
            local.ask("POST", "/v1/logs/orders/records", {"payloads": ["eA=="]})
            local.ask("POST", "/v1/logs/orders/seal", {})
        local.close()
        assert ask(known, "/v1/state", basic())[0] == 200, "who has a key keeps its connection"
        fresh = connection_to(endpoint.http_url, tls=tls)
        fresh.request("GET", "/readyz")
        answer = fresh.getresponse()
        assert (answer.status, answer.read()) == (200, b"ready\n")
        fresh.close()
        known.close()
        assert endpoint.stop() == 0
    text = log.read_text()
    assert "few_descriptors" in text
    assert "Too many open files" not in text
