"""Sockets in the file system: what they replace, what they leave alone, who may connect."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base.errors import AlreadyExists, BadName, NotFound
from lakebed.http.local_socket import ADDRESS_BYTES_MAX, bind, connect

NOBODY = 65534


@pytest.fixture(params=["short", "long"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Short enough for an address, or far beyond it."""
    here = os.open(".", os.O_RDONLY)
    os.chdir(tmp_path)
    folder = Path() if request.param == "short" else tmp_path.joinpath(*["a folder" * 8] * 5)
    folder.mkdir(parents=True, exist_ok=True)
    found = folder / "lakebed.sock"
    assert (len(bytes(found)) > ADDRESS_BYTES_MAX) == (request.param == "long")
    yield found
    os.fchdir(here)
    os.close(here)


def speak(path: Path, listener: socket.socket) -> None:
    with connect(path) as client:
        served, _ = listener.accept()
        with served:
            client.sendall(b"hello")
            assert served.recv(5) == b"hello"


def test_who_connects_is_heard(path: Path) -> None:
    with bind(path) as listener:
        speak(path, listener)


def test_the_mode_is_the_one_asked_for_whatever_the_umask(path: Path) -> None:
    for umask in (0, 0o022, 0o777):
        before = os.umask(umask)
        try:
            for mode in (0o600, 0o660, 0o666):
                with bind(path, mode):
                    assert stat.S_IMODE(path.lstat().st_mode) == mode
        finally:
            os.umask(before)


def test_nothing_is_inherited_by_what_is_executed(path: Path) -> None:
    with bind(path) as listener, connect(path) as client:
        assert not listener.get_inheritable()
        assert not client.get_inheritable()


def test_no_descriptor_is_left_open(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with bind(path) as listener:
        speak(path, listener)
    with pytest.raises(ConnectionRefusedError):
        connect(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_a_killed_server_left_is_replaced(path: Path) -> None:
    bind(path).close()
    with pytest.raises(ConnectionRefusedError) as refused:
        connect(path)
    assert refused.value.filename == os.fspath(path)
    with bind(path) as listener:
        speak(path, listener)


def test_anything_else_at_the_path_is_left_alone(path: Path) -> None:
    other = path.with_name("other")
    bind(other).close()
    path.mkdir()
    with pytest.raises(AlreadyExists, match="is a folder, not a socket"):
        bind(path)
    assert path.is_dir()
    path.rmdir()
    path.write_text("precious")
    with pytest.raises(AlreadyExists, match="is a file, not a socket"):
        bind(path)
    assert path.read_text() == "precious"
    path.unlink()
    path.symlink_to("other")
    with pytest.raises(AlreadyExists, match="is a link, not a socket"):
        bind(path)
    assert path.is_symlink()
    assert other.is_socket()


def test_a_dangling_link_is_not_followed(path: Path) -> None:
    path.symlink_to("nowhere")
    with pytest.raises(AlreadyExists, match="is a link"):
        bind(path)
    assert not path.with_name("nowhere").exists()


def test_what_is_not_there_is_told_with_its_path(path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        connect(path)
    assert missing.value.filename == os.fspath(path)
    with pytest.raises(NotFound, match="no-folder"):
        bind(path.parent / "no-folder" / "lakebed.sock")
    with pytest.raises(FileNotFoundError):
        connect(path.parent / "no-folder" / "lakebed.sock")


def test_a_name_that_fits_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadName):
        bind(tmp_path / ("n" * 120))
    with pytest.raises(BadName):
        connect(tmp_path / ("n" * 120))


def test_a_socket_that_cannot_listen_leaves_no_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("lakebed.http.local_socket.os.chmod", refuse)
    with pytest.raises(Exception, match="listen on a socket"):
        bind(path)
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_is_refused_by_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "lakebed.sock"
    code = (
        "import os, socket, sys\n"
        "from lakebed.http.local_socket import connect\n"
        "os.chdir(sys.argv[1])\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "try:\n"
        "    connect('lakebed.sock')\n"
        "except PermissionError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    tmp_path.chmod(0o755)
    with bind(path):
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "[Errno 13] Permission denied: 'lakebed.sock'\n"
