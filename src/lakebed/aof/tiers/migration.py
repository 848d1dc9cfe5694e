"""Moves a log's Tier 2 to another address. This is the only way to change a log's address.

1. Every object of the log is copied: its segments, its manifest log's chunks, and anything else
   under its prefixes. Each copy is read back, and counts only if its size, metadata and checksum
   match.
2. `log.json` is replaced: from then on the log uses the new address. The file keeps the old address
   as `tier2_before`.
3. On request, in the same call or a later one, the objects at the old address are deleted. An
   object that the log needs is deleted only if the new address has it. If none is missing, the old
   address is then removed from `log.json`.

Invariants:

- at any moment, the address in `log.json` has all objects that exist. After a crash, running the
  migration again continues it: objects that are already copied are only read back;
- the log is closed during the migration, so no objects are added at the old address;
- if both addresses are names of the same store, this is detected before anything is copied or
  deleted.

If the old address does not have the object of a segment that Tier 2 must have according to the
manifest log, the object is reported as missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from lakebed.aof.identity import OWN_FOLDER, LogIdentity, load_identity, replace_identity
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.replay import replay
from lakebed.aof.manifest.state import Pending, Residency
from lakebed.aof.paths import LogPaths
from lakebed.aof.tiers.errors import Missing
from lakebed.aof.tiers.names import manifest_prefix, segments_prefix
from lakebed.aof.tiers.object_store import ANSWERS_MAX, ObjectInfo, ObjectSource, ObjectStore
from lakebed.aof.tiers.ranges import BytesSource, crc64_of
from lakebed.aof.tiers.transfer import CRC64, crc64_text
from lakebed.base.errors import BadConfig, Corrupt, InputError
from lakebed.base.events import event
from lakebed.base.files import Disk
from lakebed.base.progress import Progress, no_progress
from lakebed.base.units import shown

_log = logging.getLogger(__name__)
_PROBE = "migration"
_DRAWN = "drawn"  # the probe's metadata name for its random number


@dataclass
class MigrationReport:
    """The result of a migration."""

    before: str  # the old address; equal to `after` if the log was there already
    after: str
    copied_count: int = 0
    copied_bytes: int = 0
    present_count: int = 0  # objects that the new address already had, and that were verified
    deleted_count: int = 0
    missing: list[str] = field(default_factory=list)  # keys that should exist but do not
    left_at: str = ""  # the address where unused objects remain


@dataclass(frozen=True)
class _KnownKeys:
    """The keys of a log's objects, according to its manifest log."""

    segments: frozenset[str]  # keys of the segments that Tier 2 must have
    others: frozenset[str]  # keys that may exist: chunks and unfinished uploads


class Migration:
    """Migrates the Tier 2 of one log. The log must be closed; the caller holds the root's lock."""

    def __init__(
        self,
        disk: Disk,
        paths: LogPaths,
        *,
        open_store: Callable[[str], ObjectStore],
        prefix: str,
        random: Random,
    ) -> None:
        """`open_store` opens the store at an address; the keys of all objects begin with
        `prefix`."""
        self._disk = disk
        self._paths = paths
        self._open_store = open_store
        self._prefix = prefix
        self._random = random

    def run(
        self, address: str, *, delete: bool = False, progress: Progress = no_progress
    ) -> MigrationReport:
        """Moves the log's Tier 2 to `address`.

        With `delete`, then deletes the objects at the old address. If the log's Tier 2 is already
        at `address`, copies nothing; the old address is then that of an earlier migration. Raises
        `NotFound` if the log has no `log.json`, `BadConfig` if `address` cannot be the address of a
        log's Tier 2, and `InputError` if both addresses name the same store.
        """
        check_address(address)
        identity = load_identity(self._disk, self._paths)
        report = MigrationReport(identity.tier2, address)
        if address != identity.tier2:
            self._copy(identity, address, report, progress)
            identity = dataclasses.replace(identity, tier2=address, tier2_before=identity.tier2)
            replace_identity(self._disk, self._paths, identity)
            event(_log, "tier2_migrated", log=self._paths.name, before=report.before, after=address)
        if delete and identity.tier2_before:
            self._delete(identity, report, progress)
            if not report.missing:
                identity = dataclasses.replace(identity, tier2_before="")
                replace_identity(self._disk, self._paths, identity)
        report.left_at = identity.tier2_before
        return report

    # Copying.

    def _copy(
        self, identity: LogIdentity, address: str, report: MigrationReport, progress: Progress
    ) -> None:
        old, new = self._open_store(identity.tier2), self._open_store(address)
        self._check_apart(old, new, identity, address)
        known_keys = self._known_keys(identity)
        keys = sorted(self._listed(old, identity) | known_keys.segments | known_keys.others)
        for count, key in enumerate(keys, start=1):
            try:
                self._copy_object(old, new, old.head(key), report)
            except Missing:
                if key in known_keys.segments:
                    report.missing.append(key)
            progress(count, len(keys))

    def _copy_object(
        self, old: ObjectStore, new: ObjectStore, info: ObjectInfo, report: MigrationReport
    ) -> None:
        """Copies one object, unless the new store already has it, and verifies the copy.

        If the copy is damaged, sends it again, up to `ANSWERS_MAX` times in total, because it may
        have been damaged in transit. If it is still damaged, removes it and raises `Corrupt`.
        """
        source = ObjectSource(old, info.key, size=info.size)
        metadata = info.metadata or {}
        crc64 = metadata.get(CRC64) or crc64_text(crc64_of(source))
        if _find(new, info) is not None and self._crc64_at(new, info) == crc64:
            report.present_count += 1
            return
        copied_crc64 = ""
        for _ in range(ANSWERS_MAX):
            new.put(info.key, source, metadata=metadata)
            copied_crc64 = (
                self._crc64_at(new, info) if _find(new, info) is not None else "another object"
            )
            if copied_crc64 == crc64:
                report.copied_count += 1
                report.copied_bytes += info.size
                return
        new.delete(info.key)
        raise Corrupt(
            "the copied object differs from the original, so the copy was removed",
            path=info.key,
            expected=crc64,
            found=copied_crc64,
        )

    def _crc64_at(self, store: ObjectStore, info: ObjectInfo) -> str:
        return crc64_text(crc64_of(ObjectSource(store, info.key, size=info.size)))

    # Deleting.

    def _delete(self, identity: LogIdentity, report: MigrationReport, progress: Progress) -> None:
        """Deletes the objects at the old address.

        Objects that the log needs and that the new address does not have are kept and reported as
        missing.
        """
        old, new = self._open_store(identity.tier2_before), self._open_store(identity.tier2)
        self._check_apart(old, new, identity, identity.tier2_before)
        known_keys = self._known_keys(identity)
        needed = known_keys.segments | known_keys.others
        keys = sorted(self._listed(old, identity) | needed)
        for count, key in enumerate(keys, start=1):
            with contextlib.suppress(Missing):
                info = old.head(key)
                if key in needed and _find(new, info) is None:
                    report.missing.append(key)
                else:
                    old.delete(key)
                    report.deleted_count += 1
            progress(count, len(keys))

    # Finding the objects.

    def _listed(self, store: ObjectStore, identity: LogIdentity) -> set[str]:
        """Returns the keys of the log's objects that the store lists.

        A listing may be outdated, so callers add the keys that the manifest log names.
        """
        stream_id = identity.stream_id
        prefixes = (
            segments_prefix(self._prefix, stream_id),
            manifest_prefix(self._prefix, stream_id),
        )
        listed = {info.key for prefix in prefixes for info in store.list(prefix)}
        return listed - {self._probe_key(identity)}

    def _known_keys(self, identity: LogIdentity) -> _KnownKeys:
        paths = ManifestPaths(f"{self._paths.manifest}/{identity.stream}")
        replayed = replay(ManifestReader(self._disk, paths))
        states = list(replayed.index.segments())
        stored = {
            state.key
            for state in states
            if state.residency & Residency.TIER2 and not state.pending & Pending.DELETE
        }
        prefix = manifest_prefix(self._prefix, identity.stream_id)
        chunks = {
            prefix + os.path.basename(paths.chunk(index))
            for index in range(replayed.end.chunk_index)
        }
        uploads = {state.upload_key for state in states if state.upload_key}
        return _KnownKeys(frozenset(stored), frozenset(chunks | uploads))

    def _check_apart(
        self, old: ObjectStore, new: ObjectStore, identity: LogIdentity, address: str
    ) -> None:
        """Raises `InputError` if both stores are the same store under different addresses.

        To find out, writes an object to the new store and looks for it in the old store.
        """
        key, drawn = self._probe_key(identity), f"{self._random.getrandbits(64):016x}"
        new.put(key, BytesSource(drawn.encode(), name=key), metadata={_DRAWN: drawn})
        try:
            is_same = (old.head(key).metadata or {}).get(_DRAWN) == drawn
        except Missing:
            is_same = False
        new.delete(key)
        if is_same:
            raise InputError(
                f"{shown(address)}: this address is another name of the store that already has "
                "the log's objects"
            )

    def _probe_key(self, identity: LogIdentity) -> str:
        return segments_prefix(self._prefix, identity.stream_id) + _PROBE


def check_address(address: str) -> None:
    """Raises `BadConfig` if the address cannot be the permanent address of a log's Tier 2."""
    if address.startswith("memory:"):
        raise BadConfig(
            f"{shown(address)}: a memory store cannot be used: its objects are lost when the "
            "process ends"
        )
    is_folder = "://" not in address and address != OWN_FOLDER
    if is_folder and not address.startswith("/"):
        raise BadConfig(f"{shown(address)}: a folder must be given as an absolute path")


def _find(store: ObjectStore, info: ObjectInfo) -> ObjectInfo | None:
    """Returns the store's object with the same key, size and metadata, or None."""
    try:
        stored = store.head(info.key)
    except Missing:
        return None
    is_same = (stored.size, stored.metadata or {}) == (info.size, info.metadata or {})
    return stored if is_same else None
