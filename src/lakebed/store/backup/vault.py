"""A vault: the place where backups are kept, as snapshots and the pool of parts that they share.

    backup.json                      identifies the store that was backed up
    snapshots/<id>.json              a catalogue; it is written last, so it is always complete
    pool/<2 digits>/<64 digits>      a part; its name is the BLAKE3 of its bytes

A vault is an object store: a folder (in which each object has a trailer, see
`aof.tiers.folder_object`), or a bucket of any S3 service. Parts never change. Backups include the
secrets of access keys, so only the owner can read the files of a folder. Only one process may write
at a time: for a folder a lock ensures this; for a bucket the caller must ensure it.
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
    """The fields that `backup.json` has in every version."""

    format: str
    version: int


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `backup.json`."""

    format: str = FORMAT
    version: int = VERSION
    store_created_ms: int  # identifies the store


class Vault:
    """Reads and writes the snapshots and parts of one vault. Not thread-safe."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        address: str,
        lock: Callable[[], AbstractContextManager[None]] = nullcontext,
        is_empty: Callable[[], bool] | None = None,
    ) -> None:
        """`is_empty` returns whether there are no other files, so that a new vault can be created.

        By default, it looks for any object in `store`. `lock` returns a context in which only this
        process may write; by default there is no lock.
        """
        self.store = store
        self.address = address
        self.lock = lock
        self._is_empty = is_empty or self._has_nothing

    # The store that was backed up.

    def marker(self) -> Marker:
        """Loads `backup.json`.

        Raises `NotFound` if there is none, `UnknownVersion` if it has another version, and
        `Corrupt` if it is damaged.
        """
        path = self._where(MARKER_KEY)
        try:
            data = self._read(MARKER_KEY, size_max=_MARKER_BYTES_MAX)
            head = msgspec.json.decode(data, type=_Head)
            if head.format != FORMAT:
                raise ValueError
            if head.version != VERSION:
                raise UnknownVersion(
                    "the backups have an unsupported version: use the version of Lakebed that took "
                    "them",
                    path=path,
                    expected=VERSION,
                    found=head.version,
                )
            return msgspec.json.decode(data, type=Marker)
        except Missing:
            raise NotFound(f"{self.address}: there is no backup") from None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Corrupt("the file is damaged, or is not a `backup.json`", path=path) from None

    def begin(self, *, store_created_ms: int, is_ours: Callable[[], bool] = lambda: True) -> None:
        """Assigns a new vault to a store, or checks that the vault belongs to the store.

        `store_created_ms` is the store's creation time, which identifies the store; 0 if it has
        none. If the vault has recorded 0, `is_ours` is called, which compares the store with the
        newest backup. Raises `InputError` if the vault has the backups of another store, or if
        there is no vault yet but there are other files.
        """
        try:
            marker = self.marker()
        except NotFound:
            if not self._is_empty():
                raise InputError(
                    f"{self.address}: contains files that are not backups; choose an empty "
                    "folder or prefix"
                ) from None
            marker = Marker(store_created_ms=store_created_ms)
            self._put(MARKER_KEY, msgspec.json.encode(marker) + b"\n")
        known_ms = marker.store_created_ms
        if (known_ms and known_ms != store_created_ms) or (not known_ms and not is_ours()):
            raise InputError(
                f"{self.address}: has the backups of another store; choose another folder or prefix"
            )
        if known_ms != store_created_ms:  # the store has a time now
            marker = Marker(store_created_ms=store_created_ms)
            self._put(MARKER_KEY, msgspec.json.encode(marker) + b"\n")

    # Snapshots.

    def snapshot_ids(self) -> list[str]:
        """Returns the ids of all snapshots, oldest first.

        Raises `NotFound` if there is no vault at this address.
        """
        self.marker()
        names = [
            info.key.removeprefix(SNAPSHOTS_PREFIX).removesuffix(_SUFFIX)
            for info in self.store.list(SNAPSHOTS_PREFIX)
        ]
        return sorted(filter(is_snapshot_id, names))

    def snapshot(self, snapshot_id: str) -> Snapshot:
        """Loads a snapshot.

        Raises `NotFound` if there is no such snapshot, and a `DataError` if it is damaged.
        """
        key = _snapshot_key(snapshot_id)
        try:
            data = self._read(key, size_max=CATALOGUE_BYTES_MAX)
        except Missing:
            raise NotFound(f"{self.address}: there is no snapshot {snapshot_id}") from None
        snapshot = decode_snapshot(data, path=self._where(key))
        if snapshot.snapshot_id != snapshot_id:
            raise Corrupt(
                "the catalogue belongs to another snapshot", path=self._where(key),
                expected=snapshot_id, found=snapshot.snapshot_id,
            )  # fmt: skip
        return snapshot

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Writes the catalogue of a snapshot, whose parts must exist; this completes the backup."""
        self._put(_snapshot_key(snapshot.snapshot_id), encode_snapshot(snapshot))

    def delete_snapshot(self, snapshot_id: str) -> None:
        self.store.delete(_snapshot_key(snapshot_id))

    # The pool.

    def pool(self) -> dict[str, int]:
        """Returns the sizes in bytes of all parts in the pool, by hash."""
        listed = ((info.key.rpartition("/")[2], info) for info in self.store.list(POOL_PREFIX))
        return {digest: info.size for digest, info in listed if info.key == part_key(digest)}

    def put_part(self, digest: str, data: bytes) -> None:
        self._put(part_key(digest), data)

    def part(self, digest: str, *, size: int) -> bytes:
        """Reads a part and checks its hash; raises `Corrupt` if it is missing or damaged."""
        key = part_key(digest)
        received = "nothing"
        for _ in range(ANSWERS_MAX):  # the transfer may have damaged it
            try:
                data = self.store.get_range(key, offset=0, length=size)
            except Missing:
                raise Corrupt("the part is missing", path=self._where(key)) from None
            if len(data) == size and blake3(data).hex() == digest:
                return data
            received = f"{len(data)} bytes with another hash"
        raise Corrupt("the part is damaged", path=self._where(key), expected=f"{size} bytes",
                      found=received)  # fmt: skip

    def delete_part(self, digest: str) -> None:
        self.store.delete(part_key(digest))

    def _put(self, key: str, data: bytes) -> None:
        self.store.put(key, BytesSource(data, name=key), metadata={})

    def _read(self, key: str, *, size_max: int) -> bytes:
        size = self.store.head(key).size
        if size > size_max:
            raise Corrupt("the file is too large", path=self._where(key),
                          expected=f"at most {size_max} bytes", found=size)  # fmt: skip
        return ObjectSource(self.store, key, size=size).read_range(0, size) if size else b""

    def _has_nothing(self) -> bool:
        return next(iter(self.store.list("")), None) is None

    def _where(self, key: str) -> str:
        return f"{self.address.rstrip('/')}/{key}"


def open_vault(
    address: str, *, disk: Disk, runner: Runner, options: S3Options | None = None
) -> Vault:
    """Opens the vault in a folder, or at `s3://bucket/prefix`.

    Creates nothing, and does not connect to the bucket yet.
    """
    store = open_object_store(address, disk=disk, options=options)
    folder = folder_of(address)
    if folder is None:
        return Vault(_retrying(store, runner), address=address)
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
        begun = [name for name in names if name.startswith(MARKER_KEY)]  # an interrupted write
        return set(names) <= {LOCK_NAME, "lost+found", *begun}

    return Vault(folder_store, address=address, lock=lock, is_empty=is_empty)


def folder_of(address: str) -> str | None:
    """Returns the path of the folder at a vault's address; None if the vault is no folder."""
    scheme, separator, path = address.partition("://")
    if not separator:
        return address
    return unquote(path) if scheme == "file" else None


def _retrying(store: ObjectStore, runner: Runner) -> ObjectStore:
    from random import Random

    return RetryingStore(store, random=Random(), sleep_ns=runner.sleep_ns)


def part_key(digest: str) -> str:
    return f"{POOL_PREFIX}{digest[:2]}/{digest}"


def _snapshot_key(snapshot_id: str) -> str:
    if not is_snapshot_id(snapshot_id):
        raise NotFound(f"{snapshot_id[:60]!r}: there is no such snapshot")
    return f"{SNAPSHOTS_PREFIX}{snapshot_id}{_SUFFIX}"
