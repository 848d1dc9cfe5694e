"""The S3 of a store that no node serves: whoever drives a run opens the store and serves it.

    with OwnS3(root, serve=loopback_s3) as own:      # as `lakebed.node.own_s3.own_s3(root)` does
        frame.write.format("lakebed.table").option("path", root).option("table", "lake/events")

It listens on loopback, for keys that are drawn for the run and kept in no metadata. Where it is
and its keys stand in `<root>/s3.json`, which its owner alone may read, while it is served: that is
how the data sources, which Spark plans in processes of their own, find it. A file that a killed
run left behind is told by who serves the root's socket now: by its process, and by when that opened
the store, for in containers many a process has the same number.

Spark may not import the S3 server, which is its sibling: how it is served is passed in.
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
"""Serves the S3 of an open store on loopback while it is entered."""


class Served(msgspec.Struct, frozen=True):
    """Where it listens, and the region that requests are signed for."""

    url: str
    region: str


class FoundS3(msgspec.Struct, frozen=True):
    """What `s3.json` says."""

    url: str
    region: str
    access_key: str
    secret_key: str
    process_id: int
    opened_ms: int  # when that process opened the store

    def __repr__(self) -> str:
        return f"FoundS3({self.url!r}, {self.access_key!r}, …)"


class OwnS3:
    """Owns the open store and the server; closing ends both. Not thread-safe."""

    def __init__(self, root: PathLike, *, serve: Serve) -> None:
        self.root = os.path.abspath(root)
        self._serve = serve
        self._stack = ExitStack()
        self._store: Store | None = None
        self.found: FoundS3 | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None, "not entered"
        return self._store

    def options(self) -> dict[str, str]:
        """Those of `lakebed.table` that name this S3, whether or not `path` can be seen there."""
        assert self.found is not None, "not entered"
        return {
            "s3Endpoint": self.found.url,
            "accessKey": self.found.access_key,
            "secretKey": self.found.secret_key,
            "region": self.found.region,
        }

    def ensure_bucket(self, name: str) -> None:
        """Make it, unless there is one."""
        if name not in self.store.bucket_names():
            self.store.bucket(name)

    def close(self) -> None:
        """Idempotent."""
        self._stack.close()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._store = stack.enter_context(_opened(self.root))
            credentials = Credentials(
                f"run-{secrets.token_hex(_KEY_BYTES)}", secrets.token_urlsafe(_SECRET_BYTES)
            )
            served = stack.enter_context(self._serve(self._store, credentials))
            self.found = FoundS3(
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
                msgspec.json.encode(self.found),
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _withdraw(self) -> None:
        with contextlib.suppress(LakebedError):
            self.store.disk.unlink(os.path.join(self.root, FILE_NAME))


def find_own_s3(root: str) -> FoundS3:
    """The S3 that is served for a run on this root; `NotFound` says what to do if there is none."""
    holder = _writer(root)
    found = _published(root)
    if found is not None and holder == _Writer(found.process_id, found.opened_ms):
        return found
    if holder is not None:
        raise NotFound(
            f"{root} is open in another program (process {holder.process_id}), which serves no S3 "
            "for this run: if it is a node, give its S3 by the options s3Endpoint, accessKey and "
            "secretKey"
        )
    raise NotFound(
        f"nobody serves the S3 of {root}: start `lakebed serve` and give s3Endpoint, accessKey and "
        "secretKey, or run the query within lakebed.node.own_s3.own_s3(root)"
    )


def _opened(root: str) -> Store:
    try:
        return Store.open(root)
    except Locked as error:
        raise Locked(
            f"{root} is open in another program: if it is a node, give its S3 by the options "
            f"s3Endpoint, accessKey and secretKey; else end it first ({error})"
        ) from error


def _published(root: str) -> FoundS3 | None:
    path = os.path.join(root, FILE_NAME)
    disk = real_disk()
    try:
        if not disk.exists(path):
            return None
        return msgspec.json.decode(read_file(disk, path, size_max=_FILE_BYTES_MAX), type=FoundS3)
    except (LakebedError, msgspec.DecodeError, UnicodeDecodeError):
        return None  # removed just now, or another user's


class _Writer(NamedTuple):
    """Who has the store open, and since when."""

    process_id: int
    opened_ms: int


def _writer(root: str) -> _Writer | None:
    """Whoever serves the root's socket."""
    with RemoteStore(address_of(root), retry_s=0) as probe:
        try:
            state = probe.state()
        except (Unreachable, Busy, Closed):
            return None
    return _Writer(state.process_id, state.opened_ms)
