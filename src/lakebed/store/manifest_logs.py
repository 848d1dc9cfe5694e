"""Where the manifest log of a log is, whether it is asked for by the log's name or its stream id.

`log.json` says so. If that is lost or damaged, the only stream's folder that is there will do: the
writer does the same, and a tool that looks for damage must not stop at the first.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from lakebed.aof.identity import LogIdentity, load_identity
from lakebed.aof.inspection import Verdict
from lakebed.aof.manifest.files import ManifestFile, list_files
from lakebed.aof.manifest.paths import ManifestPaths, parse_stream_name, stream_name
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.paths import LogPaths, SegmentName, check_log_name
from lakebed.base.errors import (
    Corrupt,
    DataError,
    InputError,
    LakebedError,
    NotFound,
    UnknownVersion,
)
from lakebed.base.files import Disk, PathLike, ReadableDisk
from lakebed.store.logs import log_names, require_log
from lakebed.store.verification import Problem


class ManifestLog(NamedTuple):
    """A manifest log, and whose it is."""

    log: str
    paths: LogPaths
    stream: str  # 16 hex digits
    is_enabled: bool | None  # None if that is not known
    problem: Problem | None  # of `log.json`
    reader: ManifestReader

    @property
    def damage(self) -> str | None:
        """What is wrong with `log.json`."""
        return None if self.problem is None else str(self.problem)

    def files(self) -> list[ManifestFile]:
        """Its chunks and snapshots."""
        return list(list_files(self.reader.disk, self.reader.paths))


def find_manifest_log(disk: Disk, root: PathLike, text: str) -> ManifestLog:
    """By name or stream id; `NotFound` if there is no such log, or it has nothing recorded."""
    check_log_name(text)
    found = _find(disk, root, text)
    reader = found.reader
    if not reader.chunk_indexes() and not reader.snapshot_ids():
        raise NotFound(f"{found.log}: {_why_nothing(disk, found)}")
    return found


def manifest_log_of(disk: Disk, root: PathLike, text: str) -> ManifestLog | None:
    """The same, also if nothing is recorded in it; None if the log never had one.

    `NotFound` if there is no such log.
    """
    check_log_name(text)
    try:
        return _find(disk, root, text)
    except NotFound:
        if not disk.is_folder(LogPaths(root, text).segments):
            raise
        return None


def _find(disk: Disk, root: PathLike, text: str) -> ManifestLog:
    is_log = disk.is_folder(LogPaths(root, text).segments)
    if is_log or parse_stream_name(text.lower()) is None:
        return _manifest_of(disk, require_log(disk, root, text))
    found = [one for one in _all(disk, root) if one.stream == text.lower()]
    if not found:
        raise NotFound(f"{os.fspath(root)}: there is no log and no stream {text}")
    if len(found) > 1:
        names = ", ".join(one.log for one in found)
        raise InputError(f"{text}: is the stream id of several logs: {names}; give a name")
    return found[0]


def _all(disk: Disk, root: PathLike) -> list[ManifestLog]:
    """Of all logs of which that can be told."""
    found: list[ManifestLog] = []
    for name in log_names(disk, root):
        try:
            found.append(_manifest_of(disk, LogPaths(root, name)))
        except LakebedError:
            continue
    return found


def _manifest_of(disk: Disk, paths: LogPaths) -> ManifestLog:
    identity, problem = _identity(disk, paths)
    stream = identity.stream if identity is not None else _only_stream(disk, paths)
    reader = ManifestReader(disk, ManifestPaths(os.path.join(paths.manifest, stream)))
    is_enabled = None if identity is None else identity.manifest_log
    return ManifestLog(paths.name, paths, stream, is_enabled, problem, reader)


def _identity(disk: Disk, paths: LogPaths) -> tuple[LogIdentity | None, Problem | None]:
    """What `log.json` says, or what is wrong with it."""
    try:
        return load_identity(disk, paths), None
    except NotFound:
        return None, _problem(paths, "missing")
    except UnknownVersion:
        raise
    except DataError as error:
        if not stream_folders(disk, paths):
            raise
        return None, _problem(paths, error.problem)


def _problem(paths: LogPaths, problem: str) -> Problem:
    return Problem(paths.identity, None, 0, Verdict.CORRUPT, problem)


def _only_stream(disk: Disk, paths: LogPaths) -> str:
    match stream_folders(disk, paths):
        case [stream]:
            return stream
        case []:
            raise NotFound(
                f"{paths.name}: there is no manifest log: "
                "nobody has opened the log for writing since logs have one"
            )
        case streams:
            names = ", ".join(streams)
            raise Corrupt(f"does not tell which manifest log is this log's: {names}",
                          path=paths.identity)  # fmt: skip


def stream_folders(disk: ReadableDisk, paths: LogPaths) -> list[str]:
    """The folders of manifest logs that this log has: one, unless somebody put others there."""
    if not disk.is_folder(paths.manifest):
        return []
    ids = map(parse_stream_name, disk.names(paths.manifest))
    return [stream_name(stream_id) for stream_id in ids if stream_id is not None]


def _why_nothing(disk: Disk, found: ManifestLog) -> str:
    if found.is_enabled is False:
        return "its manifest log is switched off and has nothing in it"
    names = disk.names(found.paths.segments)
    if any(SegmentName.parse(name) for name in names):
        return "nothing is in its manifest log; its segments are recorded when it is next written"
    return "nothing is in its manifest log yet"
