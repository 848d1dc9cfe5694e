"""TLS: served, exchanged under way, and never taken from what cannot be used."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from lakebed.http.limits import Limits
from lakebed.http.request import Request
from lakebed.http.response import FileSlice, Piece, Response
from lakebed.http.tls import BadCertificate, TlsFiles
from tests.http.certificates import write_pair
from tests.http.serving import Client, Serving, echo_body, hello, in_loop, serving, until


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    write_pair(tmp_path, "first")
    return TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem")


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def connect(served: Serving, *, names_server: bool = True) -> tuple[Client, str]:
    """The client, and whose certificate it was shown."""
    name = "localhost" if names_server else ""
    client = await served.connect(ssl=trusting(), server_hostname=name)
    shown = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    subject = x509.load_der_x509_certificate(shown).subject
    return client, str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


@in_loop
async def test_requests_are_served_and_known_to_be_secure(files: TlsFiles) -> None:
    secure = []

    async def handler(request: Request) -> Response:
        secure.append(request.is_secure)
        return await echo_body(request)

    async with serving(handler, tls=files) as served:
        client, _ = await connect(served)
        body = os.urandom(3_000_000)
        for _ in range(2):
            client.put("/", body)
            assert (await client.answer()).body == body
    assert secure == [True, True]


@in_loop
async def test_a_file_is_read_where_it_cannot_go_past_the_encryption(
    files: TlsFiles, tmp_path: Path
) -> None:
    data = os.urandom(2_000_000)
    path = tmp_path / "data"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)

    async def pieces() -> AsyncIterator[Piece]:
        yield FileSlice(descriptor, 1, len(data) - 1)

    try:
        async with serving(
            lambda _: Response(200, body=pieces(), length=len(data) - 1), tls=files
        ) as served:
            client, _ = await connect(served)
            client.get()
            assert (await client.answer()).body == data[1:]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("names_server", [True, False])
@in_loop
async def test_new_connections_get_the_new_certificate(
    names_server: bool, files: TlsFiles, tmp_path: Path
) -> None:
    async with serving(hello, tls=files) as served:
        old, name = await connect(served, names_server=names_server)
        assert name == "first"
        write_pair(tmp_path, "second")
        _, name = await connect(served, names_server=names_server)
        assert name == "first"
        files.reload()
        new, name = await connect(served, names_server=names_server)
        assert name == "second"
        for client in (old, new):
            client.get()
            assert (await client.answer()).body == b"hello"


@in_loop
async def test_a_pair_that_cannot_be_used_changes_nothing(files: TlsFiles, tmp_path: Path) -> None:
    key = (tmp_path / "key.pem").read_bytes()
    async with serving(hello, tls=files) as served:
        write_pair(tmp_path, "second")
        (tmp_path / "key.pem").write_bytes(key)  # the key of the first
        with pytest.raises(BadCertificate, match=r"cert\.pem"):
            files.reload()
        (tmp_path / "cert.pem").unlink()
        with pytest.raises(BadCertificate):
            files.reload()
        client, name = await connect(served)
        assert name == "first"
        client.get()
        assert (await client.answer()).body == b"hello"


def test_a_pair_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nonsense")
    with pytest.raises(BadCertificate):
        TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem")


@in_loop
async def test_old_versions_are_refused(files: TlsFiles) -> None:
    assert files.context.minimum_version == ssl.TLSVersion.TLSv1_2


@in_loop
async def test_one_who_speaks_no_tls_is_cut(files: TlsFiles) -> None:
    async with serving(hello, tls=files) as served:
        client = await served.connect()
        client.get()
        assert b"hello" not in await client.rest()


@in_loop
async def test_an_early_answer_can_be_read_over_tls(files: TlsFiles) -> None:
    async with serving(lambda _: Response(403, body=b"no"), tls=files) as served:
        client, _ = await connect(served)
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 300000", body=b"x" * 200_000)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (403, "close")
        served.pass_time(6)
        await until(lambda: not served.server.connection_count)


@in_loop
async def test_clients_that_begin_no_handshake_are_counted_and_make_room(files: TlsFiles) -> None:
    async with serving(hello, tls=files, limits=Limits(connections_max=2)) as served:
        silent = [await served.connect() for _ in range(2)]
        await until(lambda: served.server.connection_count == 2)
        for client in silent:
            fresh, _ = await connect(served)
            fresh.get()
            assert (await fresh.answer()).body == b"hello"
            assert await client.rest() == b""
        await until(lambda: served.server.connection_count == 2)


@in_loop
async def test_a_drain_does_not_wait_for_a_handshake(files: TlsFiles) -> None:
    async with serving(hello, tls=files) as served:
        silent = await served.connect()
        await until(lambda: served.server.connection_count == 1)
        assert await served.server.drain(30)
        assert await silent.rest() == b""
