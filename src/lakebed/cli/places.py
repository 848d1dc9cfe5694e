"""Where a command finds its store: in a folder of this machine, or at the URL of a node.

    with run.place.reading() as store: ...       # a `ReadableStore`
    with run.place.writing() as store: ...       # a `Store`

`Root` and `Node` return the same Protocols, so a command does not need to know which of them it
has. Reading a root takes no lock and works while another process writes. Writing opens the root, or
uses the socket of the process that has it open; that process then does the same work as the command
would, so the output is the same. A process that holds the lock but serves no socket may be opening
or closing the store, so the command waits for it for a while before it raises `Locked`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager as Opening
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakebed.base.errors import BadName, LakebedError, NotFound, from_os_error

# Methods import the engines: the help needs none, and reading does not need the writer.
if TYPE_CHECKING:
    from lakebed.api.read_surface import ReadableStore
    from lakebed.api.surface import Store

Value = TypeVar("Value")
Reopen = Callable[[LakebedError], "Store"]
"""Opens the store again after the process that served it has ended, or raises the given error."""

ROOT_OPTION = "--root"
LOCK_WAIT_S = 5.0
NODE_RETRY_S = 2.0
_FOLDERS = ("aof", "topics", "quarantine")  # folders in a root whose files appear in reports


class Usage(LakebedError):
    """The command line asks for something that is not possible, such as files of a remote store."""

    exit_code = 2


class SharedStore(NamedTuple):
    """A store for writing, as a context manager that closes it, and a function that opens it again
    if the process that serves it ends.

    `reopen` is None if the store is open in this process, or at a URL.
    """

    store: Opening[Store]
    reopen: Reopen | None


@dataclass(frozen=True, kw_only=True)
class Root:
    """A store in a folder of this machine. `origin` is the option or the variable that named the
    folder, or `default`."""

    path: Path
    origin: str

    def __str__(self) -> str:
        return str(self.path)

    def local(self, what: str) -> Root:
        """Returns this root: its files are on this machine, so any command can use them."""
        del what
        return self

    def refuse_if_named(self, what: str) -> None:
        """Does nothing: a command that uses no store ignores a folder in `--root`."""

    def exists(self) -> bool:
        """Returns whether the root exists. Raises `BadName` if its path is not a folder."""
        try:
            # `Path.is_dir` would report a root without permission as missing.
            self.path.stat()
        except FileNotFoundError:
            return False
        except ValueError as error:
            raise BadName(f"{self.path}: {error}") from error
        except OSError as error:
            raise from_os_error(error, operation="open", path=self.path) from error
        if not self.path.is_dir():
            raise BadName(f"{self.path}: is a file; the root must be a folder")
        return True

    def require(self) -> Path:
        """Returns the path of the root. Raises `NotFound` if it does not exist."""
        if not self.exists():
            raise NotFound(f"{self.path}: no such root (from {self.origin})")
        return self.path

    def reading(self) -> Opening[ReadableStore]:
        from lakebed.store.read_only import ReadOnlyStore

        return ReadOnlyStore(self.require())

    def writing(self, *, create: bool = False) -> Opening[Store]:
        """Opens the store for writing, here or through the process that has it open.

        If the root does not exist, makes it with `create`, and raises `NotFound` without.
        """
        return self.shared(create=create).store

    def shared(self, *, create: bool = False, retry_s: float | None = None) -> SharedStore:
        """Opens the store as `writing` does, and returns it with a way to open it again.

        If another process has the store open, calls to it are repeated for up to `retry_s` seconds
        while it does not respond.
        """
        from lakebed.host.store import Store

        if create:
            self.exists()
        else:
            self.require()
        return self.open_or_connect(
            lambda: SharedStore(Store.open(self.path), None),
            lambda store: SharedStore(store, lambda error: self._reopened(error, retry_s=retry_s)),
            retry_s=retry_s,
        )

    def open_or_connect(
        self,
        open_here: Callable[[], Value],
        connected: Callable[[Store], Value],
        *,
        retry_s: float | None = None,
    ) -> Value:
        """Returns the result of `open_here`, which opens the store in this process.

        If `open_here` raises `Locked`, connects to the process that holds the lock and returns the
        result of `connected`, which gets the remote store and must close it. Tries both in turn for
        up to `LOCK_WAIT_S` seconds, then raises `Locked`.
        """
        from lakebed.base.errors import Locked

        try:
            return open_here()
        except Locked:
            return self._first_available(open_here, connected, retry_s=retry_s)

    @property
    def endpoint(self) -> None:
        """None, because a folder has no URL: Spark workers access its files instead."""
        return None

    def named(self, texts: Sequence[str], store: ReadableStore) -> tuple[str, ...]:
        """Rewrites texts that begin with a path in the store, so that they use this root's path.

        The process that has the store open may know the root by another path.
        """
        if not texts:
            return ()
        server_root = os.path.abspath(store.root)
        return tuple(self._named(text, server_root) for text in texts)

    def _named(self, text: str, server_root: str) -> str:
        for folder in _FOLDERS:
            before, _, after = text.partition(f"{os.sep}{folder}{os.sep}")
            # The path is absolute, or relative to the folder in which that process was started.
            if after and os.path.join(os.sep, server_root).endswith(os.path.normpath(before)):
                return os.path.join(self.path, folder, after)
        return text

    def _reopened(self, error: LakebedError, *, retry_s: float | None) -> Store:
        """Opens the store again after the process that had it open stopped responding.

        If that process closed the store, it removed its socket: then opens the store here, or
        through a third process that has it open by now. If it was killed, its socket is left: then
        waits up to `LOCK_WAIT_S` seconds for a process that serves the store again, and raises
        `error` if there is none.
        """
        from lakebed.base.errors import Locked
        from lakebed.host.local_server import SOCKET_NAME
        from lakebed.host.store import Store as OwnStore

        def open_here() -> Store:
            if os.path.lexists(os.path.join(self.path, SOCKET_NAME)):
                raise Locked(
                    "the socket of the process that had the store open is still there: the process "
                    "was killed, or is opening the store again"
                )
            return OwnStore.open(self.path)

        try:
            return self._first_available(open_here, lambda store: store, retry_s=retry_s)
        except Locked:
            raise error from None

    def _first_available(
        self,
        open_here: Callable[[], Value],
        connected: Callable[[Store], Value],
        *,
        retry_s: float | None,
    ) -> Value:
        from random import Random
        from secrets import randbits

        from lakebed.base.runner import ThreadRunner
        from lakebed.client.retry_schedule import RETRY_S
        from lakebed.host.connect import first_of, served

        def find_served() -> Value | None:
            store = served(self.path, retry_s=RETRY_S if retry_s is None else retry_s)
            return None if store is None else connected(store)

        with ThreadRunner() as runner:
            return first_of(
                find_served,
                open_here,
                runner=runner,
                random=Random(randbits(64)),
                wait_s=LOCK_WAIT_S,
            )


@dataclass(frozen=True, kw_only=True)
class Node:
    """A store at the HTTP API of a node.

    As in `connect`, access keys come from the URL or from the environment.
    """

    url: str  # may contain a secret: print `str` of the node instead
    origin: str
    ca_file: Path | None = None

    def __str__(self) -> str:
        from lakebed.client.address import address_of

        return f"{self.url.partition(':')[0]}://{address_of(self.url)}"

    def local(self, what: str) -> Root:
        """Raises `Usage`: `what` needs the files of the store, which are on the node's machine."""
        raise Usage(
            f"{what} needs the files of the store: run it on the machine of {self}, with --root DIR"
        )

    def refuse_if_named(self, what: str) -> None:
        """Raises `Usage` if `--root` names the node, because the command `what` uses no store."""
        if self.origin == ROOT_OPTION:
            raise Usage(f"{what} does not use a store: leave out {ROOT_OPTION}")

    def reading(self) -> Opening[ReadableStore]:
        return self.writing()

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Store]:
        """Connects to the node. Adds advice to errors about access keys and the connection."""
        del create  # the root of a node always exists
        from lakebed.api.problems import Unauthenticated, Unreachable
        from lakebed.host.connect import connect

        try:
            with connect(self.url, ca_file=self.ca_file, retry_s=NODE_RETRY_S) as store:
                yield store
        except Unauthenticated as error:
            advice = "set LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY to an access key of the store"
            raise Unauthenticated(f"{self}: {error}; {advice}") from None
        except Unreachable as error:
            advice = f"check that the node is running, and that {self.origin} has its URL"
            if "certificate" in str(error):
                advice = "name the certificates to trust with --ca-file"
            raise Unreachable(f"{error}; {advice}") from None

    def shared(self, *, create: bool = False, retry_s: float | None = None) -> SharedStore:
        del retry_s
        return SharedStore(self.writing(create=create), None)

    def open_or_connect(
        self,
        open_here: Callable[[], Value],
        connected: Callable[[Store], Value],
        *,
        retry_s: float | None = None,
    ) -> Value:
        """Connects to the node, returns the result of `connected`, and closes the connection.

        Never calls `open_here`, because this machine does not have the store.
        """
        del open_here, retry_s
        with self.writing() as store:
            return connected(store)

    @property
    def endpoint(self) -> str:
        return self.url

    def named(self, texts: Sequence[str], store: ReadableStore) -> tuple[str, ...]:
        """Returns the texts of a report unchanged: the paths in them are on the node's machine."""
        del store
        return tuple(texts)


Place = Root | Node
