"""Who must not be let in, or wants too much, at a real `lakebed serve` on TLS: refused with a clear
error, without much memory, in the log; others are served all the while."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lakebed.api.problems import Unauthenticated, Unreachable
from lakebed.api.topics import BODY_BYTES_MAX
from lakebed.base.errors import TooLarge
from lakebed.base.units import GIB, KIB, MIB
from lakebed.client.store import RemoteStore
from lakebed.host.store import Store
from tests.http.certificates import write_pair
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint
from tests.s3.test_server_memory import peak_bytes

pytestmark = pytest.mark.process

NOBODY = 65534
WRONG = "a mistyped secret"
SLOW_CLIENTS = 100
GIVE_UP_S = 60
BASIC = b"Authorization: Basic " + b64encode(f"{ACCESS_KEY}:{SECRET_KEY}".encode()) + b"\r\n"


class Scene(NamedTuple):
    endpoint: Endpoint
    store: RemoteStore
    folder: Path

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def connect(self, access_key: str | None = None, secret_key: str | None = None) -> RemoteStore:
        return RemoteStore.open(
            self.endpoint.http_url,
            access_key=access_key,
            secret_key=secret_key,
            ca_file=self.folder / "cert.pem",
        )

    def socket(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
        place = self.endpoint.http_url.removeprefix("https://")
        host, _, port = place.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=GIVE_UP_S)
        return context.wrap_socket(plain, server_hostname=host)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("serve")
    write_pair(folder, "localhost")
    tls = ("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"))
    options = (*tls, "--http-host", "localhost", "--drain-seconds", "1")
    with Endpoint(folder / "root", *options, log=folder / "log") as endpoint:
        found = Scene(endpoint, RemoteStore.open(folder / "root"), folder)
        with found.connect(ACCESS_KEY, SECRET_KEY) as store:
            store.topic("orders").append_batch([b"a"]).result()
            yield found._replace(store=store)
            assert [one.value for one in store.topic("orders").partition(0).read()] == [b"a"]
        assert endpoint.stop() == 0
    for secret in (SECRET_KEY, WRONG):
        assert secret not in found.log
    assert "Traceback" not in found.log


@pytest.mark.parametrize(
    ("access_key", "secret_key"),
    [(ACCESS_KEY, WRONG), ("nobody", SECRET_KEY), ("x" * 300, WRONG), (None, None)],
    ids=["wrong secret", "unknown key", "long key", "no key"],
)
def test_who_has_no_key_is_refused_before_anything_is_changed(
    scene: Scene, access_key: str | None, secret_key: str | None
) -> None:
    with scene.connect(access_key, secret_key) as store:
        for call in (store.logs, lambda: store.topic("others"), lambda: store.log("others")):
            with pytest.raises(Unauthenticated, match="access key") as told:
                call()
            assert WRONG not in str(told.value)
    assert scene.store.topics.names() == ["orders"]
    if access_key is not None:
        assert "access_refused" in scene.log


def test_a_key_that_is_disabled_is_refused_from_then_on(scene: Scene) -> None:
    made = scene.store.keys.create()
    with scene.connect(made.info.access_key, made.secret) as store:
        assert store.topics.names() == ["orders"]
        scene.store.keys.disable(made.info.access_key)
        with pytest.raises(Unauthenticated, match="disabled"):
            store.topics.names()
        scene.store.keys.enable(made.info.access_key)
        assert store.topics.names() == ["orders"]


def test_a_certificate_that_nobody_vouches_for_is_told(scene: Scene) -> None:
    with (
        RemoteStore.open(scene.endpoint.http_url, access_key="a", secret_key="b") as store,  # noqa: S106
        pytest.raises(Unreachable, match="certificate is not trusted"),
    ):
        store.logs()


AS_NOBODY = f"""
import os, sys
from lakebed.base.errors import LakebedError
from lakebed.host.connect import connect
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
try:
    connect(sys.argv[1], retry_s=5).topics.names()
except LakebedError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_socket_of_another_user_is_refused_with_a_clear_error() -> None:
    """Of a root that everybody may look into."""
    with tempfile.TemporaryDirectory(prefix="lakebed-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103
        with Store.open(folder):
            command = [sys.executable, "-c", AS_NOBODY, folder]
            found = subprocess.run(
                command, capture_output=True, text=True, timeout=GIVE_UP_S, check=True
            )
    assert found.stdout == (
        f"Unauthenticated {folder}/lakebed.sock: permission denied: "
        "only the user that opened the store may connect\n"
    )
    assert found.stderr == ""


def forget_peak(endpoint: Endpoint) -> int:
    """From now on the peak is that of what follows; what is resident now."""
    Path(f"/proc/{endpoint.pid}/clear_refs").write_text("5")
    return peak_bytes(endpoint)


def answer_of(plain: ssl.SSLSocket) -> bytes:
    """Its status line; nothing if there is none."""
    with plain:
        found = b""
        while b"\r\n" not in found:
            try:
                piece = plain.recv(65536)
            except (ConnectionResetError, ssl.SSLError):
                break
            if not piece:
                break
            found += piece
    return found.partition(b"\r\n")[0]


def test_clients_that_send_slowly_cost_little_and_are_cut(scene: Scene) -> None:
    """Half a head, and half a body; others are served meanwhile. Who sent half a head is told
    after ten seconds, and the log has it."""
    before = forget_peak(scene.endpoint)
    head = b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\n" + BASIC
    begun = head + b"Content-Type: text/plain\r\nContent-Length: 10000000\r\n\r\n" + bytes(64 * KIB)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(scene.socket()) for _ in range(SLOW_CLIENTS)]
        for number, one in enumerate(slow):
            one.sendall(begun if number % 2 else head)
        for _ in range(20):
            assert scene.store.topics.names() == ["orders"]
        grown = peak_bytes(scene.endpoint) - before
        print(f"{grown / MIB:.0f} MiB more for {SLOW_CLIENTS} slow clients on TLS")
        assert grown < SLOW_CLIENTS * MIB
        assert answer_of(slow[0]).startswith(b"HTTP/1.1 408 ")
        assert scene.store.health().status == "ok"
    assert "status=408" in scene.log


def send_too_much(scene: Scene) -> None:
    """Announced, without saying how much, and as messages."""
    head = b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\n" + BASIC
    head += b"Content-Type: application/octet-stream\r\n"
    announced = scene.socket()
    announced.sendall(head + b"Content-Length: %d\r\n\r\n" % (100 * GIB))
    assert b" 413 " in answer_of(announced)
    endless, sent = scene.socket(), 0
    endless.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):  # it does not listen for long
        while sent < 1000:
            endless.sendall(b"100000\r\n" + bytes(MIB) + b"\r\n")
            sent += 1
    assert sent < 200
    answer_of(endless)  # a 413, unless what was sent behind it made the system drop it
    with pytest.raises(TooLarge):
        scene.store.topic("orders").append_batch([bytes(20 * MIB)])


def test_bodies_that_are_too_large_are_refused_and_memory_stays_flat(scene: Scene) -> None:
    before = forget_peak(scene.endpoint)
    send_too_much(scene)
    send_too_much(scene)  # by now the allocator keeps what it keeps
    grown = peak_bytes(scene.endpoint) - before
    after_some = forget_peak(scene.endpoint)
    for _ in range(5):
        send_too_much(scene)
    kept = forget_peak(scene.endpoint) - after_some
    print(f"{grown / MIB:.0f} MiB at the most; {kept / MIB:.0f} MiB more are kept after five more")
    assert grown < 3 * BODY_BYTES_MAX
    assert kept < 64 * MIB, "and not a body each time"
    assert "status=413" in scene.log
