"""`log.json`: which log this is, for good, whatever its folder is called.

    {"format": "lakebed log", "version": 1, "stream_id": "00f1…", "manifest_log": true,
     "tier2": "s3://bucket/prefix"}

Written when the log is created, before its first segment. The stream id is random; it names the
manifest log's folder and everything that the log keeps elsewhere. Where that is, stands in `tier2`
from then on, whatever the configuration says later. While a migration has left objects at another
address, that is `tier2_before`.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from random import Random

from lakebed.aof.manifest.paths import parse_stream_name, stream_name
from lakebed.aof.paths import LogPaths
from lakebed.base.errors import Corrupt, NotFound, UnknownVersion
from lakebed.base.files import Disk, read_file, replace_atomically
from lakebed.base.units import MIB

FORMAT = "lakebed log"
OWN_FOLDER = "tier2"  # the address of a Tier 2 that is a folder of the root itself
OWN_STORE = "store://lakebed-tier2"  # and of one that is a bucket of the root's own object store
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class LogIdentity:
    """What `log.json` says."""

    stream_id: int
    manifest_log: bool  # whether the manifest log was kept when it was last open for writing
    tier2: str = OWN_FOLDER
    tier2_before: str = ""  # where objects were left by a migration

    @property
    def stream(self) -> str:
        return stream_name(self.stream_id)


def load_identity(disk: Disk, paths: LogPaths) -> LogIdentity:
    """`NotFound` if there is none: nobody has opened the log for writing since it has them."""
    path = paths.identity
    data = read_file(disk, path, size_max=MIB)
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError
        version = document["version"]
        if isinstance(version, int) and version > VERSION:
            raise UnknownVersion("log", path=path, expected=VERSION, found=version)
        stream_id = parse_stream_name(document["stream_id"])
        manifest_log, tier2 = document["manifest_log"], document.get("tier2", OWN_FOLDER)
        before = document.get("tier2_before", "")
        are_texts = isinstance(tier2, str) and isinstance(before, str)
        are_kinds_right = isinstance(manifest_log, bool) and are_texts and tier2
        if version != VERSION or stream_id is None or not are_kinds_right:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Corrupt("not what says which log this is", path=path) from None
    return LogIdentity(
        stream_id=stream_id, manifest_log=manifest_log, tier2=tier2, tier2_before=before
    )


def find_identity(disk: Disk, paths: LogPaths, *, tier2: str) -> LogIdentity:
    """As `load_identity`; if the file was lost, by the manifest log's folder, if there is one."""
    try:
        return load_identity(disk, paths)
    except NotFound:
        found = _streams(disk, paths)
        if len(found) != 1:
            raise
        return LogIdentity(stream_id=found[0], manifest_log=True, tier2=tier2)


def ensure_identity(
    disk: Disk, paths: LogPaths, *, random: Random, manifest_log: bool, tier2: str
) -> tuple[LogIdentity, LogIdentity | None]:
    """The log's identity as it is from now on, and as it was; a new one if it has none.

    A file that was lost is made anew from the manifest log's folder, if that is the only one.
    """
    try:
        before = load_identity(disk, paths)
        if before.manifest_log == manifest_log:
            return before, before
        identity = dataclasses.replace(before, manifest_log=manifest_log)
    except NotFound:
        before = None
        found = _streams(disk, paths)
        stream_id = found[0] if len(found) == 1 else random.getrandbits(64)
        identity = LogIdentity(stream_id=stream_id, manifest_log=manifest_log, tier2=tier2)
    replace_identity(disk, paths, identity)
    return identity, before


def replace_identity(disk: Disk, paths: LogPaths, identity: LogIdentity) -> None:
    """Durable when it returns; the old one or the new one if it does not."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "stream_id": identity.stream,
        "manifest_log": identity.manifest_log,
        "tier2": identity.tier2,
    }
    if identity.tier2_before:
        document["tier2_before"] = identity.tier2_before
    replace_atomically(disk, paths.identity, json.dumps(document).encode() + b"\n")


def _streams(disk: Disk, paths: LogPaths) -> list[int]:
    if not disk.is_folder(paths.manifest):
        return []
    names = map(parse_stream_name, disk.names(paths.manifest))
    return [stream_id for stream_id in names if stream_id is not None]
