"""Where backups are kept: snapshots, and the pool of parts that they share.

    backup.json                      whose backups these are
    snapshots/<id>.json              one catalogue for each; it is put last, so what was cut is none
    pool/<2 digits>/<64 digits>      a part: its name is the BLAKE3 of its bytes

It is an object store, of which nothing is asked that not every one does: a folder (in which each
object carries a trailer, see `aof.tiers.folder_object`), or a bucket. A part is never changed.
Secrets of access keys are in it: the files of a folder are for their owner alone.
One at a time may write: in a folder that is kept by a lock, in a bucket it is the caller's duty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from urllib.parse import unquote

import msgspec

from lakebed.aof.tiers.errors import Missing
from lakebed.aof.tiers.folder_store import FolderStore
from lakebed.aof.tiers.object_store import ANSWERS_MAX, ObjectSource, ObjectStore
from lakebed.aof.tiers.object_store_address import open_object_store
from lakebed.aof.tiers.obstore_store import S3Options
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.aof.tiers.retrying_store import RetryingStore
from lakebed.base.errors import Corrupt, InputError, NotFound, UnknownVersion
from lakebed.base.files import Disk, make_folders
from lakebed.base.runner import Runner
from lakebed.base.units import KIB
from lakebed.kernels.checksum import blake3
from lakebed.store.backup.catalogue import (
    CATALOGUE_BYTES_MAX,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    is_snapshot_id,
)

FORMAT = "lakebed backup"
VERSION = 1
MARKER_KEY = "backup.json"
SNAPSHOTS_PREFIX = "snapshots/"
POOL_PREFIX = "pool/"
LOCK_NAME = "backup.lock"

_MARKER_BYTES_MAX = 4 * KIB
_SUFFIX = ".json"


class _Head(msgspec.Struct):
    """What `backup.json` says in every version."""

    format: str
    version: int


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """What `backup.json` says."""

    format: str = FORMAT
    version: int = VERSION
    store_created_ms: int  # what tells one store from another


class Vault:
    """For one thread at a time."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        address: str,
        lock: Callable[[], AbstractContextManager[None]] = nullcontext,
        is_empty: Callable[[], bool] | None = None,
    ) -> None:
        """`is_empty` tells whether nobody else has anything at that place."""
        self.store = store
        self.address = address
        self.lock = lock
        self._is_empty = is_empty or self._has_nothing

    # Whose it is.

    def marker(self) -> Marker:
        """`NotFound` if there is no backup here, `UnknownVersion` if it is newer."""
        path = self._where(MARKER_KEY)
        try:
            data = self._read(MARKER_KEY, size_max=_MARKER_BYTES_MAX)
            head = msgspec.json.decode(data, type=_Head)
            if head.format != FORMAT:
                raise ValueError
            if head.version != VERSION:
                raise UnknownVersion(
                    "backups of a version that is not read", path=path, expected=VERSION,
                    found=head.version,
                )  # fmt: skip
            return msgspec.json.decode(data, type=Marker)
        except Missing:
            raise NotFound(f"{self.address}: there is no backup") from None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Corrupt("not the beginning of a backup", path=path) from None

    def begin(self, *, store_created_ms: int, is_ours: Callable[[], bool] = lambda: True) -> None:
        """Make it the place of that store's backups, or see that it is.

        A store that does not say when it was made is 0; `is_ours` is asked about its backups.
        """
        try:
            marker = self.marker()
        except NotFound:
            if not self._is_empty():
                raise InputError(
                    f"{self.address}: there is something else than a backup; give an empty place"
                ) from None
            marker = Marker(store_created_ms=store_created_ms)
            self._put(MARKER_KEY, msgspec.json.encode(marker) + b"\n")
        known_ms = marker.store_created_ms
        if (known_ms and known_ms != store_created_ms) or (not known_ms and not is_ours()):
            raise InputError(f"{self.address}: has the backups of another store")
        if known_ms != store_created_ms:  # it says it now
            marker = Marker(store_created_ms=store_created_ms)
            self._put(MARKER_KEY, msgspec.json.encode(marker) + b"\n")

    # Snapshots.

    def snapshot_ids(self) -> list[str]:
        """The oldest first. `NotFound` if there is no backup here."""
        self.marker()
        names = [
            info.key.removeprefix(SNAPSHOTS_PREFIX).removesuffix(_SUFFIX)
            for info in self.store.list(SNAPSHOTS_PREFIX)
        ]
        return sorted(filter(is_snapshot_id, names))

    def snapshot(self, snapshot_id: str) -> Snapshot:
        """`NotFound` if there is none, a `DataError` if it cannot be read."""
        key = _snapshot_key(snapshot_id)
        try:
            data = self._read(key, size_max=CATALOGUE_BYTES_MAX)
        except Missing:
            raise NotFound(f"{self.address}: there is no snapshot {snapshot_id}") from None
        snapshot = decode_snapshot(data, path=self._where(key))
        if snapshot.snapshot_id != snapshot_id:
            raise Corrupt(
                "the catalogue of another snapshot", path=self._where(key), expected=snapshot_id,
                found=snapshot.snapshot_id,
            )  # fmt: skip
        return snapshot

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """All of its parts must be there. From here on it is a backup."""
        self._put(_snapshot_key(snapshot.snapshot_id), encode_snapshot(snapshot))

    def delete_snapshot(self, snapshot_id: str) -> None:
        self.store.delete(_snapshot_key(snapshot_id))

    # The pool.

    def pool(self) -> dict[str, int]:
        """The sizes of all parts, by hash."""
        found = ((info.key.rpartition("/")[2], info) for info in self.store.list(POOL_PREFIX))
        return {digest: info.size for digest, info in found if info.key == part_key(digest)}

    def put_part(self, digest: str, data: bytes) -> None:
        self._put(part_key(digest), data)

    def part(self, digest: str, *, size: int) -> bytes:
        """Its bytes, checked; `Corrupt` names it if it is missing or damaged."""
        key = part_key(digest)
        found = "nothing"
        for _ in range(ANSWERS_MAX):  # what was damaged on its way may arrive the next time
            try:
                data = self.store.get_range(key, offset=0, length=size)
            except Missing:
                raise Corrupt("a part is missing", path=self._where(key)) from None
            if len(data) == size and blake3(data).hex() == digest:
                return data
            found = f"{len(data)} bytes with another hash"
        raise Corrupt("a damaged part", path=self._where(key), expected=f"{size} bytes",
                      found=found)  # fmt: skip

    def delete_part(self, digest: str) -> None:
        self.store.delete(part_key(digest))

    def _put(self, key: str, data: bytes) -> None:
        self.store.put(key, BytesSource(data, name=key), metadata={})

    def _read(self, key: str, *, size_max: int) -> bytes:
        size = self.store.head(key).size
        if size > size_max:
            raise Corrupt("too long", path=self._where(key), expected=f"at most {size_max} bytes",
                          found=size)  # fmt: skip
        return ObjectSource(self.store, key, size=size).read_range(0, size) if size else b""

    def _has_nothing(self) -> bool:
        return next(iter(self.store.list("")), None) is None

    def _where(self, key: str) -> str:
        return f"{self.address.rstrip('/')}/{key}"


def open_vault(
    address: str, *, disk: Disk, runner: Runner, options: S3Options | None = None
) -> Vault:
    """A folder, or `s3://bucket/prefix`. Nothing is created or connected to yet."""
    store = open_object_store(address, disk=disk, options=options)
    if not isinstance(store, FolderStore):
        return Vault(_retrying(store, runner), address=address)
    folder = unquote(address.removeprefix("file://")) if "://" in address else address
    folder_store = FolderStore(disk, folder)

    @contextmanager
    def lock() -> Iterator[None]:
        make_folders(disk, folder)
        held = disk.lock(os.path.join(folder, LOCK_NAME))
        try:
            if disk.exists(os.path.join(folder, MARKER_KEY)):
                folder_store.remove_leftovers()
            yield
        finally:
            held.release()

    def is_empty() -> bool:
        names = disk.names(folder) if disk.is_folder(folder) else []
        begun = [name for name in names if name.startswith(MARKER_KEY)]  # and cut short
        return set(names) <= {LOCK_NAME, "lost+found", *begun}

    return Vault(folder_store, address=address, lock=lock, is_empty=is_empty)


def _retrying(store: ObjectStore, runner: Runner) -> ObjectStore:
    from random import Random

    return RetryingStore(store, random=Random(), sleep_ns=runner.sleep_ns)


def part_key(digest: str) -> str:
    return f"{POOL_PREFIX}{digest[:2]}/{digest}"


def _snapshot_key(snapshot_id: str) -> str:
    if not is_snapshot_id(snapshot_id):
        raise NotFound(f"{snapshot_id[:60]!r}: no snapshot is called so")
    return f"{SNAPSHOTS_PREFIX}{snapshot_id}{_SUFFIX}"
