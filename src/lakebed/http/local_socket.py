"""A Unix socket in the file system: made by the one who serves, found by its path.

A file of an earlier server, which nobody listens on any more, is replaced; whether somebody does is
for the caller to know. Anything else at the path is left alone. The rights of the file are set
before anybody can connect: they are all that guards it.

The address of a Unix socket has 108 bytes. A longer path is reached through the descriptor of its
folder, as `/proc/self/fd/<descriptor>/<name>`. No program that is executed inherits the sockets.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.base.errors import AlreadyExists, BadName, from_os_error

PathLike = str | os.PathLike[str]

ADDRESS_BYTES_MAX = 107  # and a zero behind them
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
    """A socket that listens there. `AlreadyExists` if something else than a socket is there."""
    where = os.fspath(path)
    try:
        with _address(where) as (address, folder, name):
            _remove_old(where, folder, name)
            return _listening(address, folder, name, mode)
    except OSError as error:
        raise from_os_error(error, operation="listen on a socket", path=where) from error


def connect(path: PathLike, *, timeout_s: float | None = None) -> socket.socket:
    """A connection to who listens there, with that time-out for all that is done with it.

    An `OSError` with the path, of the kind that tells why not: `FileNotFoundError`,
    `ConnectionRefusedError` if nobody listens, `PermissionError` if it is another user's.
    """
    where = os.fspath(path)
    connection = _new_socket()
    try:
        with _address(where) as (address, _, _):
            connection.settimeout(timeout_s)
            connection.connect(address)
    except OSError as error:
        connection.close()
        raise OSError(error.errno, error.strerror or str(error), where) from error
    except BaseException:
        connection.close()
        raise
    return connection


def identity_of(path: PathLike) -> tuple[int, int] | None:
    """Of the file at the path: by it a server finds out whether the file is still its own."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _address(path: str) -> Iterator[tuple[str, int, str]]:
    """What to bind or connect to, and the same as an open folder and a name in it."""
    parent, name = os.path.split(path)
    folder = os.open(parent or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        address = path
        if len(os.fsencode(path)) > ADDRESS_BYTES_MAX:
            address = f"/proc/self/fd/{folder}/{name}"
        if len(os.fsencode(address)) > ADDRESS_BYTES_MAX:
            raise BadName(f"{path}: the name of a socket has at most some 80 bytes")
        yield address, folder, name
    finally:
        os.close(folder)


def _remove_old(path: str, folder: int, name: str) -> None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise AlreadyExists(f"{path}: is {kind} and no socket; it is left alone")
    os.unlink(name, dir_fd=folder)


def _listening(address: str, folder: int, name: str, mode: int) -> socket.socket:
    listener = _new_socket()
    is_bound = False
    try:
        os.fchmod(listener.fileno(), mode)  # the file is made with no more rights than these
        listener.bind(address)
        is_bound = True
        os.chmod(name, mode, dir_fd=folder)  # which the umask may have narrowed
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        if is_bound:
            os.unlink(name, dir_fd=folder)
        raise
    return listener


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # close-on-exec, as Python makes them
