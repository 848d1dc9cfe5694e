"""Takes a backup: copies every part of the store in order, then writes the catalogue.

A backup reads the store like any read-only process, which writes only pins and SQLite's shared
files into the root. If it is interrupted, there is no new snapshot; the parts that were copied stay
in the pool, and the next backup does not copy them again.

A log, topic or object store that is too damaged to be read is copied file by file as it is, and
reported as a problem. Damaged or missing data of logs, topics, groups and objects does not end a
backup; it is reported. So are files that cannot be opened or read and folders that cannot be
listed, for whatever reason.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from lakebed.aof.identity import OWN_FOLDER
from lakebed.aof.manager import LOCK_NAME
from lakebed.aof.tiers.errors import Tier2Error
from lakebed.base.clock import NS_PER_MS
from lakebed.base.damage_ledger import FILE_NAME as DAMAGE_NAME
from lakebed.base.errors import (
    BadConfig,
    DataError,
    DiskError,
    InputError,
    NotFound,
    SyncFailed,
    UnknownVersion,
    WriteFailed,
)
from lakebed.base.files import TEMPORARY_SUFFIX, Disk
from lakebed.keratin.paths import TOPICS_NAME
from lakebed.keratin.topic_folder import topic_names
from lakebed.seglake.paths import DATABASE_NAME, SECRET_KEY_NAME
from lakebed.store import version
from lakebed.store.backup.catalogue import PART_BYTES, Snapshot, snapshot_id_of
from lakebed.store.backup.copy import (
    Copier,
    Progress,
    SourceChanged,
    Unreadable,
    copy_as_it_is,
    copy_tree,
)
from lakebed.store.backup.groups import copy_groups
from lakebed.store.backup.logs import copy_log, external_tier2
from lakebed.store.backup.objects import copy_objects
from lakebed.store.backup.owner import begin_backup
from lakebed.store.backup.pins import BackupPins
from lakebed.store.backup.topics import copy_topic, topic_id
from lakebed.store.backup.vault import Vault, folder_of
from lakebed.store.logs import log_names
from lakebed.store.read_only import ReadOnlyStore
from lakebed.stroma.paths import FOLDER_NAME as GROUPS_NAME
from lakebed.version import VERSION as PROGRAM_VERSION

if TYPE_CHECKING:
    from lakebed.seglake.meta.connection import Connector

SETTINGS_NAME = "lakebed.toml"
_ID_RANDOM_BYTES = 4
_COPIED = frozenset(
    ("aof", TOPICS_NAME, GROUPS_NAME, "objects", OWN_FOLDER, DATABASE_NAME, SECRET_KEY_NAME,
     SETTINGS_NAME, DAMAGE_NAME, version.FILE_NAME)
)  # fmt: skip
_PASSING = frozenset(
    (LOCK_NAME, "lakebed.sock", "s3.json", "pins", "quarantine", f"{DATABASE_NAME}-wal",
     f"{DATABASE_NAME}-shm", version.RESTORING_NAME)
)  # fmt: skip


class CreatedBackup(NamedTuple):
    """A complete backup, and how much was added to the vault for it."""

    snapshot: Snapshot
    put_count: int  # parts that the vault did not have before
    put_bytes: int  # of these parts


def create_backup(
    store: ReadOnlyStore,
    vault: Vault,
    *,
    progress: Progress = lambda _: None,
    part_bytes: int = PART_BYTES,
    connector: Connector | None = None,
    new_token: Callable[[], str] = lambda: secrets.token_hex(_ID_RANDOM_BYTES),
) -> CreatedBackup:
    """Takes a backup of a store, with all data that was durable in the root before the call.

    Damage is reported in the `problems` of the snapshot. Calls `progress` with the number of bytes
    copied or reused so far. `connector` opens the metadata database of the object store.
    `new_token` returns the random digits that end the snapshot's id. Raises `InputError` if the
    vault is inside the root or has the backups of another store, and `Locked` if it is a folder to
    which another process is writing.
    """
    clock = store.runner.clock
    created_ms = clock.wall_ns() // NS_PER_MS
    check_apart(store.root, vault.address)
    with vault.lock():
        previous = begin_backup(vault, store)
        with BackupPins(store.pins, clock=clock) as pins:

            def advance(done_bytes: int) -> None:
                pins.renew()
                progress(done_bytes)

            copier = Copier(
                vault,
                disk=store.disk,
                root=store.root,
                previous=previous,
                progress=advance,
                part_bytes=part_bytes,
            )
            _copy_topics(copier, store, pins)
            external = _copy_logs(copier, store, pins)
            copy_objects(copier, store.disk, store.root, connector=connector)
        _copy_top(copier, store)
        last = next(reversed(vault.snapshot_ids()), None)
        snapshot = Snapshot(
            snapshot_id=snapshot_id_of(created_ms, new_token(), last=last),
            created_ms=created_ms,
            finished_ms=clock.wall_ns() // NS_PER_MS,
            program=PROGRAM_VERSION,
            part_bytes=part_bytes,
            files=tuple(copier.files[name] for name in sorted(copier.files)),
            external=tuple(external),
            left_out=tuple(map(_plain, _left_out(store.disk, store.root))),
            problems=tuple(dict.fromkeys(map(_plain, copier.problems))),
        )
        vault.put_snapshot(snapshot)
    return CreatedBackup(snapshot, copier.put_count, copier.put_bytes)


def _copy_topics(copier: Copier, store: ReadOnlyStore, pins: BackupPins) -> None:
    disk, root = store.disk, store.root
    before = _names(copier, store, TOPICS_NAME, topic_names)
    ids = {name: topic_id(disk, root, name) for name in before or ()}
    groups: dict[str, list[str]] = {}
    with _Damage(copier, disk, os.path.join(root, GROUPS_NAME)):
        groups = copy_groups(copier, disk, root)
    copied = set()
    names = _names(copier, store, TOPICS_NAME, topic_names)
    for name in names or ():
        folder = os.path.join(root, TOPICS_NAME, name)
        with _Damage(copier, disk, folder):
            if copy_topic(copier, disk, root, name, runner=store.runner, pins=pins):
                copied.add(name)
                continue
        if disk.is_folder(folder):
            copied.add(name)
    if before is None or names is None:
        return  # it is not known which topics were deleted
    for topic, file_names in groups.items():
        # The groups of a topic that was deleted do not belong to a new topic of the same name.
        is_same = topic in ids and topic_id(disk, root, topic) == ids[topic]
        if topic not in copied or not is_same:
            for file_name in file_names:
                copier.files.pop(file_name, None)


def _copy_logs(copier: Copier, store: ReadOnlyStore, pins: BackupPins) -> list[str]:
    """Copies all logs; returns the name and the address of each Tier 2 that is outside the root."""
    external = []
    for name in _names(copier, store, "aof", log_names) or ():
        pins.log(name)
        with _Damage(copier, store.disk, os.path.join(store.root, "aof", name)):
            copy_log(copier, store, name)
        address = external_tier2(store.disk, store.root, name)
        if address is not None:
            external.append(f"log {name}: {address}")
    copy_tree(copier, store.disk, os.path.join(store.root, OWN_FOLDER))
    return external


def _copy_top(copier: Copier, store: ReadOnlyStore) -> None:
    for name in (SETTINGS_NAME, DAMAGE_NAME, version.FILE_NAME):
        copy_as_it_is(copier, os.path.join(store.root, name))


def _names(
    copier: Copier,
    store: ReadOnlyStore,
    folder: str,
    list_names: Callable[[Disk, str], list[str]],
) -> list[str] | None:
    """Returns the names of the topics or logs in a folder of the root.

    If they cannot be listed, copies the files in the folder as they are, and returns None.
    """
    with _Damage(copier, store.disk, os.path.join(store.root, folder)):
        return list_names(store.disk, store.root)
    return None


class _Damage:
    """A context manager for copying a folder.

    If copying fails because the folder is damaged or cannot be read, that is added to the backup's
    problems, and the folder's files are copied as they are.
    """

    def __init__(self, copier: Copier, disk: Disk, folder: str) -> None:
        self._copier = copier
        self._disk = disk
        self._folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None or not self._is_damage(error):
            return False
        if isinstance(error, DiskError):
            error = Unreadable(os.fspath(error.path), error)
        self._copier.problems.append(str(error))
        self._copier.forget(f"{self._copier.name(self._folder)}/")
        copy_tree(self._copier, self._disk, self._folder)
        return True

    def _is_damage(self, error: BaseException) -> bool:
        """Whether the error means that the folder is damaged, or that files in it cannot be read.

        Errors of a Tier 2 or of writing, newer formats and errors such as `Busy` do not.
        """
        match error:
            case UnknownVersion() | Tier2Error() | WriteFailed() | SyncFailed():
                return False
            case NotFound():
                return self._disk.is_folder(self._folder)
            case DiskError():
                return f"{os.fspath(error.path)}/".startswith(f"{self._folder}/")
        return isinstance(error, DataError | BadConfig | SourceChanged)


def _left_out(disk: Disk, root: str) -> list[str]:
    names = [name for name in disk.names(root) if not name.endswith(TEMPORARY_SUFFIX)]
    return [name for name in names if name not in _COPIED and name not in _PASSING]


def _plain(text: str) -> str:
    """Escapes characters that are not valid UTF-8, because file names may have any bytes."""
    return text.encode("utf-8", "backslashreplace").decode()


def check_apart(root: str, address: str) -> None:
    """Raises `InputError` if `address` is a folder inside the store's root, or the root itself."""
    folder, root = folder_of(address), os.path.realpath(root)
    if folder is not None and os.path.commonpath([os.path.realpath(folder), root]) == root:
        raise InputError(
            f"{address}: the folder for backups is inside the store's root; choose a folder "
            "outside the root"
        )
