"""Creates Unix sockets in the file system, and connects to them.

`bind` replaces an existing socket file, so its caller must make sure that no server is listening on
it. Any other kind of file at the path is kept, and `bind` raises an error. The permissions of the
socket file are the only access control, and are set before a client can connect.

The address of a Unix socket has at most 108 bytes, with its terminating zero. A longer path is
reached through the descriptor of its folder, as `/proc/self/fd/<descriptor>/<name>`. Child programs
do not inherit the sockets.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.base.errors import AlreadyExists, BadName, from_os_error

PathLike = str | os.PathLike[str]

ADDRESS_BYTES_MAX = 107  # and a terminating zero
BACKLOG = 1024

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def bind(path: PathLike, mode: int = 0o600) -> socket.socket:
    """Creates a Unix socket at the path and listens on it.

    Replaces an existing socket file. Raises `AlreadyExists` if the path is any other kind of file,
    and `BadName` if the file's name is too long.
    """
    path_text = os.fspath(path)
    try:
        with _address(path_text) as (address, folder, name):
            _remove_old(path_text, folder, name)
            return _listening(address, folder, name, mode)
    except OSError as error:
        raise from_os_error(error, operation="listen on a socket", path=path_text) from error


def connect(path: PathLike, *, timeout_s: float | None = None) -> socket.socket:
    """Connects to the Unix socket at the path. `timeout_s` applies to each socket operation.

    Raises an `OSError` with the path, for example `FileNotFoundError` if there is no such file,
    `ConnectionRefusedError` if no server is listening, or `PermissionError` if the file's
    permissions do not allow it. Raises `BadName` if the file's name is too long.
    """
    path_text = os.fspath(path)
    connection = _new_socket()
    try:
        with _address(path_text) as (address, _, _):
            connection.settimeout(timeout_s)
            connection.connect(address)
    except OSError as error:
        connection.close()
        raise OSError(error.errno, error.strerror or str(error), path_text) from error
    except BaseException:
        connection.close()
        raise
    return connection


def identity_of(path: PathLike) -> tuple[int, int] | None:
    """Returns the device and inode numbers of the file, or None if it is missing or inaccessible.

    A server compares them to recognise its own socket file.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _address(path: str) -> Iterator[tuple[str, int, str]]:
    """Yields the socket's address, the descriptor of its folder, and its file name.

    The address is the path or, if that is too long, a path through the descriptor. Raises `BadName`
    if that path is too long as well.
    """
    parent, name = os.path.split(path)
    folder = os.open(parent or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        address = path
        if len(os.fsencode(path)) > ADDRESS_BYTES_MAX:
            address = f"/proc/self/fd/{folder}/{name}"
        if len(os.fsencode(address)) > ADDRESS_BYTES_MAX:
            raise BadName(f"{path}: the socket's file name is too long; use at most 80 bytes")
        yield address, folder, name
    finally:
        os.close(folder)


def _remove_old(path: str, folder: int, name: str) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "another kind of file")
        raise AlreadyExists(
            f"{path} already exists and is {kind}, not a socket: move it away or remove it"
        )
    os.unlink(name, dir_fd=folder)


def _listening(address: str, folder: int, name: str, mode: int) -> socket.socket:
    listener = _new_socket()
    is_bound = False
    try:
        os.fchmod(listener.fileno(), mode)  # the file is created with at most these permissions
        listener.bind(address)
        is_bound = True
        os.chmod(name, mode, dir_fd=folder)  # the umask may have removed some
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        if is_bound:
            os.unlink(name, dir_fd=folder)
        raise
    return listener


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # close-on-exec by default
