"""Moving a log's Tier 2 to another address: the only way in which that changes.

1. Every object of the log is copied: its segments, its manifest log's chunks, and whatever else is
   below its names. A copy is read back, and counts if size and checksum are right.
2. `log.json` is replaced: from then on the log is at the new address. It keeps the old one in mind.
3. If that is wanted, now or in a later call, the objects at the old address are deleted, each only
   if the new one has it; then the old address is forgotten.

Invariants:
- whatever the moment of a crash, the address in `log.json` has all objects; doing it again goes on
  where it ended: what is there already is not sent again, only read back;
- the log is not open meanwhile, so nothing is added at the old address behind the copying;
- two names of one place are found out before anything is copied or deleted.

An object that the manifest log names and the old address does not have is told, and stays lost.
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
_DRAWN = "drawn"  # metadata of the probe


@dataclass
class MigrationReport:
    """What was done."""

    before: str  # the address; the same as `after` if the log was there already
    after: str
    copied_count: int = 0
    copied_bytes: int = 0
    present_count: int = 0  # were there, and are whole
    deleted_count: int = 0
    missing: list[str] = field(default_factory=list)  # keys that should be there, and are not
    left_at: str = ""  # where the objects are still, though nobody uses them


@dataclass(frozen=True)
class _KnownKeys:
    """The keys that a log's own files speak of."""

    segments: frozenset[str]  # its objects in Tier 2
    others: frozenset[str]  # that may be there: chunks, and what was being uploaded


class Migration:
    """Of one log that is not open. Who runs it holds the root's lock."""

    def __init__(
        self,
        disk: Disk,
        paths: LogPaths,
        *,
        open_store: Callable[[str], ObjectStore],
        prefix: str,
        random: Random,
    ) -> None:
        """`open_store` gives the store at an address; `prefix` begins all keys."""
        self._disk = disk
        self._paths = paths
        self._open_store = open_store
        self._prefix = prefix
        self._random = random

    def run(
        self, address: str, *, delete: bool = False, progress: Progress = no_progress
    ) -> MigrationReport:
        """Have the log's Tier 2 at that address; `delete` what is left at the one before."""
        check_address(address)
        identity = load_identity(self._disk, self._paths)
        done = MigrationReport(identity.tier2, address)
        if address != identity.tier2:
            self._copy(identity, address, done, progress)
            identity = dataclasses.replace(identity, tier2=address, tier2_before=identity.tier2)
            replace_identity(self._disk, self._paths, identity)
            event(_log, "tier2_migrated", log=self._paths.name, before=done.before, after=address)
        if delete and identity.tier2_before:
            self._delete(identity, done, progress)
            if not done.missing:
                identity = dataclasses.replace(identity, tier2_before="")
                replace_identity(self._disk, self._paths, identity)
        done.left_at = identity.tier2_before
        return done

    # Copying.

    def _copy(
        self, identity: LogIdentity, address: str, done: MigrationReport, progress: Progress
    ) -> None:
        old, new = self._open_store(identity.tier2), self._open_store(address)
        self._check_apart(old, new, identity, address)
        known = self._known_keys(identity)
        keys = sorted(self._listed(old, identity) | known.segments | known.others)
        for count, key in enumerate(keys, start=1):
            try:
                self._copy_object(old, new, old.head(key), done)
            except Missing:
                if key in known.segments:
                    done.missing.append(key)
            progress(count, len(keys))

    def _copy_object(
        self, old: ObjectStore, new: ObjectStore, info: ObjectInfo, done: MigrationReport
    ) -> None:
        """What arrives damaged is sent again: damage on the way looks like damage of the object."""
        source = ObjectSource(old, info.key, size=info.size)
        metadata = info.metadata or {}
        crc64 = metadata.get(CRC64) or crc64_text(crc64_of(source))
        if _find(new, info) is not None and self._crc64_at(new, info) == crc64:
            done.present_count += 1
            return
        found = ""
        for _ in range(ANSWERS_MAX):
            new.put(info.key, source, metadata=metadata)
            found = self._crc64_at(new, info) if _find(new, info) is not None else "another object"
            if found == crc64:
                done.copied_count += 1
                done.copied_bytes += info.size
                return
        new.delete(info.key)
        raise Corrupt("not copied: its bytes are wrong", path=info.key, expected=crc64, found=found)

    def _crc64_at(self, store: ObjectStore, info: ObjectInfo) -> str:
        return crc64_text(crc64_of(ObjectSource(store, info.key, size=info.size)))

    # Deleting.

    def _delete(self, identity: LogIdentity, done: MigrationReport, progress: Progress) -> None:
        """What the new address does not have, though it should, is kept at the old one."""
        old, new = self._open_store(identity.tier2_before), self._open_store(identity.tier2)
        self._check_apart(old, new, identity, identity.tier2_before)
        known = self._known_keys(identity)
        needed = known.segments | known.others
        keys = sorted(self._listed(old, identity) | needed)
        for count, key in enumerate(keys, start=1):
            with contextlib.suppress(Missing):
                info = old.head(key)
                if key in needed and _find(new, info) is None:
                    done.missing.append(key)
                else:
                    old.delete(key)
                    done.deleted_count += 1
            progress(count, len(keys))

    # What there is.

    def _listed(self, store: ObjectStore, identity: LogIdentity) -> set[str]:
        """A listing may be behind: what the log's files know of is looked up besides."""
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
        """One place may have many names: what is put at the one must not appear at the other."""
        key, drawn = self._probe_key(identity), f"{self._random.getrandbits(64):016x}"
        new.put(key, BytesSource(drawn.encode(), name=key), metadata={_DRAWN: drawn})
        try:
            is_same = (old.head(key).metadata or {}).get(_DRAWN) == drawn
        except Missing:
            is_same = False
        new.delete(key)
        if is_same:
            raise InputError(f"{shown(address)}: is another name of where the objects are")

    def _probe_key(self, identity: LogIdentity) -> str:
        return segments_prefix(self._prefix, identity.stream_id) + _PROBE


def check_address(address: str) -> None:
    """`BadConfig` if a log's objects cannot be kept there for good."""
    if address.startswith("memory:"):
        raise BadConfig(f"{shown(address)}: keeps nothing")
    is_folder = "://" not in address and address != OWN_FOLDER
    if is_folder and not address.startswith("/"):
        raise BadConfig(f"{shown(address)}: a folder is given with its whole path")


def _find(store: ObjectStore, info: ObjectInfo) -> ObjectInfo | None:
    """The object of that key, if size and metadata are the same."""
    try:
        found = store.head(info.key)
    except Missing:
        return None
    is_same = (found.size, found.metadata or {}) == (info.size, info.metadata or {})
    return found if is_same else None
