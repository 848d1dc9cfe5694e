"""`log.json`: the permanent identity of a log, which does not depend on its folder's name.

    {"format": "lakebed log", "version": 1, "stream_id": "00f1…", "manifest_log": true,
     "tier2": "s3://bucket/prefix"}

The file is written when the log is created, before its first segment. The stream id is random; it
is the name of the manifest log's folder and part of the keys of the log's objects. `manifest_log`
states whether the manifest log was on when the log was last open for writing. `tier2` is the
address of the log's Tier 2; later changes of the configuration do not change it. `tier2_before` is
the address before a migration; it is present only until the objects there are deleted.
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
OWN_FOLDER = "tier2"  # the address of a Tier 2 in a folder of the root itself
OWN_STORE = "store://lakebed-tier2"  # the address of a Tier 2 in the root's own object store
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class LogIdentity:
    """The content of `log.json`."""

    stream_id: int
    manifest_log: bool  # whether the manifest log was on when the log was last written
    tier2: str = OWN_FOLDER
    tier2_before: str = ""  # the address where a migration left objects

    @property
    def stream(self) -> str:
        return stream_name(self.stream_id)


def load_identity(disk: Disk, paths: LogPaths) -> LogIdentity:
    """Reads `log.json`. Raises `NotFound` if the log has no such file.

    The file is missing, for example, if the log was last written by a version of Lakebed that did
    not create it. Raises `Corrupt` if the file is damaged, and `UnknownVersion` if a newer version
    of Lakebed wrote it.
    """
    path = paths.identity
    data = read_file(disk, path, size_max=MIB)
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError
        version = document["version"]
        if isinstance(version, int) and version > VERSION:
            raise UnknownVersion(
                "the log was written by a newer version of Lakebed: "
                "use that version or a newer one",
                path=path,
                expected=VERSION,
                found=version,
            )
        stream_id = parse_stream_name(document["stream_id"])
        manifest_log, tier2 = document["manifest_log"], document.get("tier2", OWN_FOLDER)
        before = document.get("tier2_before", "")
        are_texts = isinstance(tier2, str) and isinstance(before, str)
        are_kinds_right = isinstance(manifest_log, bool) and are_texts and tier2
        if version != VERSION or stream_id is None or not are_kinds_right:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Corrupt("the file is not a valid log.json", path=path) from None
    return LogIdentity(
        stream_id=stream_id, manifest_log=manifest_log, tier2=tier2, tier2_before=before
    )


def find_identity(disk: Disk, paths: LogPaths, *, tier2: str) -> LogIdentity:
    """Reads `log.json`; if the file is missing, takes the stream id from the manifest log's folder.

    The address of the log's Tier 2 is then `tier2`. Raises `NotFound` if the file is missing and
    there is not exactly one such folder, and a `DataError` if the file cannot be decoded.
    """
    try:
        return load_identity(disk, paths)
    except NotFound:
        stream_ids = _streams(disk, paths)
        if len(stream_ids) != 1:
            raise
        return LogIdentity(stream_id=stream_ids[0], manifest_log=True, tier2=tier2)


def ensure_identity(
    disk: Disk, paths: LogPaths, *, random: Random, manifest_log: bool, tier2: str
) -> tuple[LogIdentity, LogIdentity | None]:
    """Returns the log's identity, and the previous content of `log.json`; None if it was missing.

    Writes `log.json` if it is missing or if `manifest_log` changed. For a missing file, takes the
    stream id from the name of the manifest log's folder if there is exactly one such folder, and
    otherwise chooses a new stream id.
    """
    try:
        before = load_identity(disk, paths)
        if before.manifest_log == manifest_log:
            return before, before
        identity = dataclasses.replace(before, manifest_log=manifest_log)
    except NotFound:
        before = None
        stream_ids = _streams(disk, paths)
        stream_id = stream_ids[0] if len(stream_ids) == 1 else random.getrandbits(64)
        identity = LogIdentity(stream_id=stream_id, manifest_log=manifest_log, tier2=tier2)
    replace_identity(disk, paths, identity)
    return identity, before


def replace_identity(disk: Disk, paths: LogPaths, identity: LogIdentity) -> None:
    """Durably replaces `log.json`. If this fails, the file has the old or the new content."""
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
