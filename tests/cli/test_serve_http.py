"""`lakebed serve --http-port` as its users meet it: keys, TLS, its end, and what cannot work."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
from base64 import b64encode
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.host.local_clients import Client, until
from tests.http.certificates import write_pair
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

pytestmark = pytest.mark.process

EVERYWHERE = "0.0.0.0"  # noqa: S104
COMMAND = [sys.executable, "-m", "lakebed.cli"]


def basic(access_key: str = ACCESS_KEY, secret: str = SECRET_KEY) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{access_key}:{secret}".encode()).decode()}


def connection_to(url: str, *, tls: ssl.SSLContext | None = None) -> HTTPConnection:
    place = urlsplit(url)
    assert place.hostname is not None
    if tls is not None:
        return HTTPSConnection(place.hostname, place.port, timeout=60, context=tls)
    return HTTPConnection(place.hostname, place.port, timeout=60)


def ask(
    connection: HTTPConnection, path: str, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def serve(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a start that cannot work prints."""
    command = [*COMMAND, "--root", str(root), "serve", "--s3-port", "0", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=variables
    )


def test_the_http_api_is_for_who_has_a_key(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        assert endpoint.http_url.startswith("http://127.0.0.1:")
        connection = connection_to(endpoint.http_url)
        status, health = ask(connection, "/v1/health")
        assert (status, health["status"]) == (200, "ok")
        for headers in ({}, basic(ACCESS_KEY, "wrong"), basic("nobody")):
            status, problem = ask(connection, "/v1/state", headers)
            assert (status, problem["code"]) == (401, "unauthenticated")
        status, state = ask(connection, "/v1/state", basic())
        assert (status, state["process_id"]) == (200, endpoint.pid)
        connection.close()


def test_keys_of_the_store_count_and_both_listeners_show_one_store(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        local = Client(endpoint.root)
        made = local.ask("POST", "/v1/keys", {"label": "one"})
        local.ask("PUT", "/v1/buckets/photos", {})
        local.close()
        connection = connection_to(endpoint.http_url)
        headers = basic(made["info"]["access_key"], made["secret"])
        status, state = ask(connection, "/v1/state", headers)
        assert (status, state["buckets"]) == (200, ["photos"])
        connection.close()


def test_tls_is_for_both_and_a_certificate_is_exchanged(tmp_path: Path) -> None:
    write_pair(tmp_path, "first")
    arguments = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with Endpoint(tmp_path / "root", *arguments, "--http-host", EVERYWHERE) as endpoint:
        assert endpoint.http_url.startswith("https://0.0.0.0:")
        port = urlsplit(endpoint.http_url).port
        assert port is not None
        connection = connection_to(f"https://127.0.0.1:{port}", tls=trusting)
        assert ask(connection, "/v1/state")[0] == 401
        assert ask(connection, "/v1/state", basic())[0] == 200
        connection.close()
        write_pair(tmp_path, "second")
        endpoint.signal(signal.SIGHUP)
        wanted = (tmp_path / "cert.pem").read_text()
        until(lambda: ssl.get_server_certificate(("127.0.0.1", port)) == wanted)


def test_sigterm_lets_requests_under_way_end(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        slow, other = connection_to(endpoint.http_url), connection_to(endpoint.http_url)
        other.request("PUT", "/v1/logs/orders", "{}", {**basic()})
        assert other.getresponse().read()
        slow.putrequest("POST", "/v1/logs/orders/records")
        for name, value in basic().items():
            slow.putheader(name, value)
        slow.putheader("Content-Type", "application/x-ndjson")
        slow.putheader("Transfer-Encoding", "chunked")
        slow.endheaders(b"6\r\nfirst\n\r\n")

        def under_way() -> int:
            _, found = ask(other, "/v1/counters", basic())
            count: int = found["counters"]["door"]["now"]["requests"]
            return count

        until(lambda: under_way() == 2)
        endpoint.signal(signal.SIGTERM)
        assert other.sock is not None
        assert other.sock.recv(1) == b""  # it had nothing under way
        slow.send(b"7\r\nsecond\n\r\n0\r\n\r\n")
        answer = slow.getresponse()
        assert answer.status == 200
        assert answer.read()
        slow.close()
        other.close()
        assert endpoint.wait() == 0
        endpoint.start()
    cat = [*COMMAND, "--root", str(tmp_path / "root"), "aof", "cat", "orders"]
    assert subprocess.run(cat, capture_output=True, check=True).stdout == b"first\nsecond\n"


def test_who_wants_no_http_api_has_the_socket_alone(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root", "--no-http") as endpoint:
        assert endpoint.http_url == ""
        local = Client(endpoint.root)
        local.ask("GET", "/v1/health")
        local.close()


def test_keys_in_clear_from_other_machines_need_a_word(tmp_path: Path) -> None:
    with Endpoint(
        tmp_path / "root",
        "--http-host",
        EVERYWHERE,
        "--http-insecure",
    ) as endpoint:
        assert endpoint.http_url.startswith("http://0.0.0.0:")


def test_what_cannot_work_is_told_in_one_line(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        cases = {
            f"cannot listen on 127.0.0.1:{port}: another program listens there": serve(
                root, "--http-port", port
            ),
            "without TLS, access keys would be sent in clear text": serve(
                root,
                "--http-port",
                "0",
                "--http-host",
                EVERYWHERE,
            ),
            "--http-host example.com": serve(
                root, "--http-port", "0", "--http-host", "example.com"
            ),
        }
    for words, found in cases.items():
        assert found.returncode != 0, words
        assert words in found.stderr, found.stderr
        assert found.stderr.count("\n") == 1, found.stderr
        assert found.stdout == ""
    assert not (root / "lakebed.sock").exists()
