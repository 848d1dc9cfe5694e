"""Where a command finds its store: a folder of this machine, or a node at a URL.

    with run.place.reading() as store: ...       # a `ReadableStore`
    with run.place.writing() as store: ...       # a `Store`

Both places hand out the same Protocols, so a command does not need to know which one it has.
Reading a root takes no lock and works while another process writes. Writing opens the root, or goes
through the socket of the program that has it open; that program does what the command would have
done, so the output is the same. A program that holds the lock and serves no socket may be just
opening or closing the store: it is waited for, and then reported as `Locked`.
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

# Imported by the methods: the help needs none of the engines, and reading none of the writer.
if TYPE_CHECKING:
    from lakebed.api.read_surface import ReadableStore
    from lakebed.api.surface import Store

Value = TypeVar("Value")
Reopen = Callable[[LakebedError], "Store"]
"""Opens the store again after the program that served it has ended, or raises the error."""

ROOT_OPTION = "--root"
LOCK_WAIT_S = 5.0
NODE_RETRY_S = 2.0
_FOLDERS = ("aof", "topics", "quarantine")  # of a root, whose files appear in reports


class Usage(LakebedError):
    """The command line asks for something that cannot be done."""

    exit_code = 2


class SharedStore(NamedTuple):
    """A store open for writing. `reopen` is None where nothing has to be reopened: the store is
    open in this process, or its client reconnects by itself."""

    store: Opening[Store]
    reopen: Reopen | None


@dataclass(frozen=True, kw_only=True)
class Root:
    """A folder, and which option or variable named it."""

    path: Path
    origin: str

    def __str__(self) -> str:
        return str(self.path)

    def local(self, what: str) -> Root:
        """This place, for `what`, which works on files."""
        del what
        return self

    def refuse_if_named(self, what: str) -> None:
        """Nothing: `what` uses no store, and a folder does no harm."""

    def exists(self) -> bool:
        """Whether the root is there; raises `BadName` if something other than a folder is."""
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
            raise BadName(f"{self.path}: is a file, the root must be a folder")
        return True

    def require(self) -> Path:
        """The folder; raises `NotFound` if it is missing."""
        if not self.exists():
            raise NotFound(f"{self.path}: no such root (from {self.origin})")
        return self.path

    def reading(self) -> Opening[ReadableStore]:
        from lakebed.store.read_only import ReadOnlyStore

        return ReadOnlyStore(self.require())

    def writing(self, *, create: bool = False) -> Opening[Store]:
        """`create`: a root that does not exist is made."""
        return self.shared(create=create).store

    def shared(self, *, create: bool = False, retry_s: float | None = None) -> SharedStore:
        """`retry_s`: how long calls to another program are repeated while it does not answer."""
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
        """What `here` returns, unless it raises `Locked`: then what `there` makes of the store of
        the program that holds the lock. `there` takes the store over and closes it."""
        from lakebed.base.errors import Locked

        try:
            return open_here()
        except Locked:
            return self._first_available(open_here, connected, retry_s=retry_s)

    @property
    def endpoint(self) -> None:
        """None: a root is reached by its files."""
        return None

    def named(self, texts: Sequence[str], store: ReadableStore) -> tuple[str, ...]:
        """Texts that begin with a path of the store, with the root as it is named here."""
        if not texts:
            return ()
        server_root = os.path.abspath(store.root)
        return tuple(self._named(text, server_root) for text in texts)

    def _named(self, text: str, server_root: str) -> str:
        for folder in _FOLDERS:
            before, _, after = text.partition(f"{os.sep}{folder}{os.sep}")
            # Absolute, or relative to where that program was started.
            if after and os.path.join(os.sep, server_root).endswith(os.path.normpath(before)):
                return os.path.join(self.path, folder, after)
        return text

    def _reopened(self, error: LakebedError, *, retry_s: float | None) -> Store:
        """The store, after the program that had it open has stopped answering.

        A program that closed the store has removed its socket: then it is opened here, unless yet
        another program has it open. One that was killed has left its socket: the store is left to
        until that program is started again; if it is not, the error is raised.
        """
        from lakebed.base.errors import Locked
        from lakebed.host.local_server import SOCKET_NAME
        from lakebed.host.store import Store as OwnStore

        def open_here() -> Store:
            if os.path.lexists(os.path.join(self.path, SOCKET_NAME)):
                raise Locked("killed, or just opening the store")
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
    """The HTTP API of a node. Access keys come from the URL or the environment, as `connect` has
    them."""

    url: str  # it may have a secret: never printed
    origin: str
    ca_file: Path | None = None

    def __str__(self) -> str:
        from lakebed.client.address import address_of

        return f"{self.url.partition(':')[0]}://{address_of(self.url)}"

    def local(self, what: str) -> Root:
        """`Usage`: the files are on another machine."""
        raise Usage(
            f"{what} needs the files of the store: run it on the machine of {self}, with --root DIR"
        )

    def refuse_if_named(self, what: str) -> None:
        """Raises `Usage` if the command line names a node for `what`, which uses no store."""
        if self.origin == ROOT_OPTION:
            raise Usage(f"{what} does not use a store: leave out {ROOT_OPTION}")

    def reading(self) -> Opening[ReadableStore]:
        return self.writing()

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Store]:
        """An error of the connection is raised with advice."""
        del create  # the root of a node is there
        from lakebed.api.problems import Unauthenticated, Unreachable
        from lakebed.host.connect import connect

        try:
            with connect(self.url, ca_file=self.ca_file, retry_s=NODE_RETRY_S) as store:
                yield store
        except Unauthenticated as error:
            advice = "set LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY to an access key of the store"
            raise Unauthenticated(f"{self}: {error}; {advice}") from None
        except Unreachable as error:
            advice = "check that the node is running, and that --root has its URL"
            if "certificate" in str(error):
                advice = "give the certificates to trust with --ca-file"
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
        """As for a root that another program has open."""
        del open_here, retry_s
        with self.writing() as store:
            return connected(store)

    @property
    def endpoint(self) -> str:
        return self.url

    def named(self, texts: Sequence[str], store: ReadableStore) -> tuple[str, ...]:
        """As the node names them."""
        del store
        return tuple(texts)


Place = Root | Node
