"""Stores that are backed up and restored, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.store.backup.catalogue import Snapshot
from lakebed.store.backup.create import CreatedBackup, create_backup
from lakebed.store.backup.restore import restore
from lakebed.store.backup.vault import Vault, open_vault
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.store_check import verify_store
from tests.aof.tiers.tiered_logs import contents
from tests.store.queues import drained
from tests.store.whole_stores import open_store, write_store

PART_BYTES = 500_000  # so that files have several


def vault_at(folder: Path) -> Vault:
    return open_vault(str(folder), disk=real_disk(), runner=ThreadRunner())


def back_up(root: Path, folder: Path, **arguments: Any) -> tuple[Vault, CreatedBackup]:
    vault = vault_at(folder)
    with ReadOnlyStore(root) as store:
        taken = create_backup(store, vault, part_bytes=PART_BYTES, **arguments)
    return vault, taken


def restored(vault: Vault, snapshot: Snapshot, root: Path) -> Path:
    restore(vault, snapshot, str(root), disk=real_disk())
    return root


def write_everything(root: Path) -> None:
    """As `write_store`, with groups, keys and settings."""
    write_store(root)
    (root / "lakebed.toml").write_text("[keratin]\nretention_ms = 3600000\n")
    with open_store(root) as store:
        group = store.topic("events").group("readers")
        group.ack_all(group.lease(max_messages=30))
        store.keys.create(label="nightly")


def logs_of(store: Store) -> dict[str, list[bytes]]:
    return {name: contents(store.log(name)) for name in store.logs()}


def topics_of(store: Store) -> dict[str, list[list[bytes | None]]]:
    return {
        name: [
            [message.value for message in partition.scan_from(partition.start_offset())]
            for partition in store.topic(name).partitions
        ]
        for name in store.topic_names()
    }


def objects_of(store: Store) -> dict[str, bytes]:
    return {
        f"{bucket}/{row.key}": b"".join(store.bucket(bucket).get(row.key))
        for bucket in store.bucket_names()
        for row in store.bucket(bucket).list()
    }


def left_of(store: Store, topic: str, group: str) -> list[bytes]:
    """What the group has not settled."""
    return sorted(one.value or b"" for one in drained(store.topic(topic).group(group)))


def everything(root: Path) -> dict[str, object]:
    """All that a store has, read through its own API; groups are drained by it."""
    with open_store(root) as store:
        found: dict[str, object] = {
            "logs": logs_of(store),
            "topics": topics_of(store),
            "objects": objects_of(store),
            "keys": [(key.access_key, key.label) for key in store.keys.list()],
        }
        found["left"] = left_of(store, "events", "readers")
        return found


def check_whole(root: Path) -> None:
    """Every checksum, before anybody repairs anything, and behind that."""
    for _ in range(2):
        with ReadOnlyStore(root) as store:
            report = verify_store(store, tier2=True, progress=lambda *_: None)
        assert report.is_good, report
        with open_store(root) as store:
            for name in store.logs():
                store.log(name)
            assert not store.lake.damage, store.lake.damage


def files_below(folder: Path) -> dict[str, bytes]:
    """All but what SQLite's readers share."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("meta.db-")
    }
