"""Serves the S3 API of a store for one Spark run, when no node serves the store.

    with OwnS3(root, serve=loopback_s3) as own:      # as `lakebed.node.own_s3.own_s3(root)` does
        frame.write.format("lakebed.table").option("path", root).option("table", "lake/events")

The driver of the run opens the store and listens on loopback, with random credentials that are
valid for this run only and are not stored in the metadata. While it serves, the file
`<root>/s3.json`, readable only by its owner, has the address and the credentials. The data source
`lakebed.table`, which Spark plans in separate processes, reads that file.

A killed run leaves its file. Readers detect that the file is stale by comparing its process id and
store opening time with those of the process that has the store open now. (The process id alone is
not enough: in containers many processes have the same id.)

The import rules do not allow Spark code to import the S3 server, so the caller passes the function
that starts the server.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Final, NamedTuple, Self

import msgspec

from lakebed.api.problems import Unreachable
from lakebed.base.errors import Busy, Closed, LakebedError, Locked, NotFound
from lakebed.base.files import PathLike, read_file, replace_atomically
from lakebed.client.address import address_of
from lakebed.client.store import RemoteStore
from lakebed.host.store import Store
from lakebed.kernels.disk import real_disk
from lakebed.seglake.key_ring import Credentials

FILE_NAME: Final = "s3.json"

_FILE_BYTES_MAX: Final = 64 * 1024
_KEY_BYTES: Final = 10
_SECRET_BYTES: Final = 30

Serve = Callable[[Store, Credentials], AbstractContextManager["Served"]]
"""A function whose result is a context manager that serves the S3 API of a store on loopback."""


class Served(msgspec.Struct, frozen=True):
    """The address of an S3 server, and the region that its clients must use to sign requests."""

    url: str
    region: str


class PublishedS3(msgspec.Struct, frozen=True):
    """The content of `s3.json`: the address and credentials of an S3 server, and the process
    in which the server runs.
    """

    url: str
    region: str
    access_key: str
    secret_key: str
    process_id: int
    opened_ms: int  # when that process opened the store

    def __repr__(self) -> str:
        return f"PublishedS3({self.url!r}, {self.access_key!r}, …)"


class OwnS3:
    """A store and an S3 server for it. A `with` statement opens the store and starts the server;
    both run until `close`, which the end of the `with` block calls. Not thread-safe.
    """

    def __init__(self, root: PathLike, *, serve: Serve) -> None:
        self.root = os.path.abspath(root)
        self._serve = serve
        self._stack = ExitStack()
        self._store: Store | None = None
        self.published: PublishedS3 | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None, "not entered"
        return self._store

    def options(self) -> dict[str, str]:
        """Returns the options of `lakebed.table` with the address and credentials of this S3
        server.

        Processes that cannot read the store's folder need these options; with the option `path`,
        they would look for the file `s3.json` in that folder.
        """
        assert self.published is not None, "not entered"
        return {
            "s3Endpoint": self.published.url,
            "accessKey": self.published.access_key,
            "secretKey": self.published.secret_key,
            "region": self.published.region,
        }

    def ensure_bucket(self, name: str) -> None:
        """Creates the bucket if it does not exist."""
        if name not in self.store.bucket_names():
            self.store.bucket(name)

    def close(self) -> None:
        """Removes `s3.json`, stops the S3 server and closes the store. A second call does
        nothing.
        """
        self._stack.close()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._store = stack.enter_context(_opened(self.root))
            credentials = Credentials(
                f"run-{secrets.token_hex(_KEY_BYTES)}", secrets.token_urlsafe(_SECRET_BYTES)
            )
            served = stack.enter_context(self._serve(self._store, credentials))
            self.published = PublishedS3(
                url=served.url,
                region=served.region,
                access_key=credentials.access_key,
                secret_key=credentials.secret,
                process_id=os.getpid(),
                opened_ms=self._store.opened_ms,
            )
            stack.callback(self._withdraw)
            replace_atomically(
                self._store.disk,
                os.path.join(self.root, FILE_NAME),
                msgspec.json.encode(self.published),
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _withdraw(self) -> None:
        with contextlib.suppress(LakebedError):
            self.store.disk.unlink(os.path.join(self.root, FILE_NAME))


def find_own_s3(root: str) -> PublishedS3:
    """Returns the address and credentials of the S3 server that a Spark run started for this root.

    Raises `NotFound` if there is no such server; the message states what to do.
    """
    writer = _writer(root)
    published = _published(root)
    if published is not None and writer == _Writer(published.process_id, published.opened_ms):
        return published
    if writer is not None:
        raise NotFound(
            f"{root} is open in process {writer.process_id}, which did not publish an S3 endpoint "
            "for Spark: if it is a node, set the options s3Endpoint, accessKey and secretKey to "
            "those of the node"
        )
    raise NotFound(
        f"found no program that serves the S3 API of {root}: start `lakebed serve` and set the "
        "options s3Endpoint, accessKey and secretKey, or run the query within "
        "lakebed.node.own_s3.own_s3(root)"
    )


def _opened(root: str) -> Store:
    try:
        return Store.open(root)
    except Locked as error:
        raise Locked(
            f"{root} is already open for writing: if a node has it open, set the options "
            "s3Endpoint, accessKey and secretKey to those of the node; otherwise close it there "
            f"first ({error})"
        ) from error


def _published(root: str) -> PublishedS3 | None:
    path = os.path.join(root, FILE_NAME)
    disk = real_disk()
    try:
        if not disk.exists(path):
            return None
        return msgspec.json.decode(
            read_file(disk, path, size_max=_FILE_BYTES_MAX), type=PublishedS3
        )
    except (LakebedError, msgspec.DecodeError, UnicodeDecodeError):
        return None  # just removed, damaged, or owned by another user


class _Writer(NamedTuple):
    """The process that has the store open, and when it opened the store."""

    process_id: int
    opened_ms: int


def _writer(root: str) -> _Writer | None:
    """Returns the process that has the store open for writing, or None if no process answers on
    the local socket of the root.
    """
    with RemoteStore(address_of(root), retry_s=0) as probe:
        try:
            state = probe.state()
        except (Unreachable, Busy, Closed):
            return None
    return _Writer(state.process_id, state.opened_ms)
