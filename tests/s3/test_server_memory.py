"""What a server in another process holds in memory: little, however large objects are and however
slow their clients.

Measured as the operating system counts it: the most that was resident at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakebed.base.units import KIB, MIB
from tests.s3.boto import boto_client
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

LARGE_BYTES = 256 * MIB
RESIDENT_BYTES_MAX = 300 * MIB
AT_ONCE = 3
SLOW_CLIENTS = 50
HALF_OPEN_CLIENTS = 200
SLOW_BYTES = 8 * MIB
_BLOCK = bytes(range(256)) * 4096


class MadeBody:
    """A file that is made as it is read; it can be read again."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._place = 0

    def __len__(self) -> int:
        return self._size

    def read(self, length: int = -1) -> bytes:
        length = min(len(_BLOCK) if length < 0 else length, self._size - self._place)
        start = self._place % len(_BLOCK)
        data = _BLOCK[start : start + length]
        self._place += len(data)
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        self._place = place + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        return self._place


def sha256_of(size: int) -> str:
    digest, body = hashlib.sha256(), MadeBody(size)
    while data := body.read():
        digest.update(data)
    return digest.hexdigest()


def peak_bytes(endpoint: Endpoint) -> int:
    """The most that was resident since the process began."""
    status = Path(f"/proc/{endpoint.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) * KIB


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    with Endpoint(tmp_path / "store", "--drain-seconds", "1") as started:
        yield started


@pytest.fixture
def client(endpoint: Endpoint) -> Any:
    made = boto_client(endpoint.url, ACCESS_KEY, SECRET_KEY)
    made.create_bucket(Bucket="bucket")
    return made


def all_at_once(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.process
def test_large_objects_stream_in_and_out_through_little_memory(
    endpoint: Endpoint, client: Any
) -> None:
    expected = sha256_of(LARGE_BYTES)

    def put(number: int) -> None:
        client.put_object(Bucket="bucket", Key=f"{number}", Body=MadeBody(LARGE_BYTES))

    def get(number: int) -> None:
        digest = hashlib.sha256()
        body = client.get_object(Bucket="bucket", Key=f"{number}")["Body"]
        for piece in body.iter_chunks(MIB):
            digest.update(piece)
        assert digest.hexdigest() == expected

    all_at_once(AT_ONCE, put)
    after_put = peak_bytes(endpoint)
    all_at_once(AT_ONCE, get)
    after_get = peak_bytes(endpoint)
    print(f"{after_put / MIB:.0f} MiB after the puts, {after_get / MIB:.0f} MiB after the gets")
    assert max(after_put, after_get) < RESIDENT_BYTES_MAX


def signed_head(endpoint: Endpoint, method: str, key: str, length: int = 0) -> bytes:
    url = f"{endpoint.url}/bucket/{key}"
    request = AWSRequest(method=method, url=url, headers={"content-length": str(length)})
    request.context["payload_signing_enabled"] = False
    request.headers["x-amz-content-sha256"] = "UNSIGNED-PAYLOAD"
    S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", "us-east-1").add_auth(request)
    lines = [f"{method} /bucket/{key} HTTP/1.1", f"host: 127.0.0.1:{endpoint.port}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@contextlib.contextmanager
def sockets(
    endpoint: Endpoint, count: int, *, buffer_bytes: int = 0
) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            if buffer_bytes:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            one.settimeout(60)
            one.connect(("127.0.0.1", endpoint.port))
            opened.append(one)
        yield opened


@pytest.mark.process
def test_half_open_connections_cost_little_memory(endpoint: Endpoint, client: Any) -> None:
    before = peak_bytes(endpoint)
    with sockets(endpoint, HALF_OPEN_CLIENTS) as opened:
        for one in opened:
            one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 100)
        client.list_buckets()
        grown = peak_bytes(endpoint) - before
    print(f"{grown / MIB:.1f} MiB for {HALF_OPEN_CLIENTS} half-open connections")
    assert grown < HALF_OPEN_CLIENTS * 64 * KIB


@pytest.mark.process
def test_many_who_read_slowly_cost_a_bounded_amount_of_memory(
    endpoint: Endpoint, client: Any
) -> None:
    """Each reads an object of its own."""
    for number in range(SLOW_CLIENTS):
        client.put_object(Bucket="bucket", Key=f"{number}", Body=MadeBody(SLOW_BYTES))
    before = peak_bytes(endpoint)
    with sockets(endpoint, SLOW_CLIENTS, buffer_bytes=4096) as opened:
        for number, one in enumerate(opened):
            one.sendall(signed_head(endpoint, "GET", f"{number}"))
        for one in opened:
            assert one.recv(12) == b"HTTP/1.1 200"
        client.list_buckets()
        grown = peak_bytes(endpoint) - before
    print(f"{grown / MIB:.0f} MiB for {SLOW_CLIENTS} slow readers, after {before / MIB:.0f} MiB")
    assert grown < SLOW_CLIENTS * 10 * MIB


@pytest.mark.process
def test_many_who_write_slowly_cost_a_bounded_amount_of_memory(
    endpoint: Endpoint, client: Any
) -> None:
    before = peak_bytes(endpoint)
    with sockets(endpoint, SLOW_CLIENTS) as opened:
        for number, one in enumerate(opened):
            one.sendall(signed_head(endpoint, "PUT", f"{number}", SLOW_BYTES))

        def send(number: int) -> None:
            opened[number].sendall(bytes(SLOW_BYTES - 1))

        all_at_once(SLOW_CLIENTS, send)
        client.list_buckets()
        grown = peak_bytes(endpoint) - before
    print(f"{grown / MIB:.0f} MiB for {SLOW_CLIENTS} slow writers")
    assert grown < SLOW_CLIENTS * 14 * MIB  # two chunks each, and what was received
