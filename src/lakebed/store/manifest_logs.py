"""Finds the manifest log of a log, by the log's name or by its stream id.

A manifest log records what happens to the segments of a log: when they are sealed, uploaded,
evicted. `log.json` has the stream id, which is the name of the manifest log's folder. If it is lost
or damaged and there is only one such folder, that folder is used. The writer does the same for a
lost `log.json`, but does not open a log whose `log.json` is damaged. A tool that searches for
damage must not stop there.
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
    """A manifest log, and the log that it belongs to."""

    log: str
    paths: LogPaths
    stream: str  # 16 hex digits
    is_enabled: bool | None  # None if `log.json` is missing or damaged
    problem: Problem | None  # what is wrong with `log.json`
    reader: ManifestReader

    @property
    def damage(self) -> str | None:
        """What is wrong with `log.json`, as text; None if the file is good."""
        return None if self.problem is None else str(self.problem)

    def files(self) -> list[ManifestFile]:
        """Returns the files of the manifest log: its chunks and snapshots."""
        return list(list_files(self.reader.disk, self.reader.paths))


def find_manifest_log(disk: Disk, root: PathLike, text: str) -> ManifestLog:
    """Returns the manifest log of a log, given the log's name or stream id.

    Raises `NotFound` if there is no such log, or its manifest log is missing or empty, `InputError`
    if several logs have the stream id, and a `DataError` if `log.json` does not show which manifest
    log is in use.
    """
    check_log_name(text)
    manifest_log = _find(disk, root, text)
    reader = manifest_log.reader
    if not reader.chunk_indexes() and not reader.snapshot_ids():
        raise NotFound(f"{manifest_log.log}: {_why_nothing(disk, manifest_log)}")
    return manifest_log


def manifest_log_of(disk: Disk, root: PathLike, text: str) -> ManifestLog | None:
    """Returns the manifest log of a log, even if it is empty; None if the log has none.

    `text` is the log's name or stream id. Raises the errors of `find_manifest_log`, but `NotFound`
    only if there is no such log.
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
    manifest_logs = [item for item in _all(disk, root) if item.stream == text.lower()]
    if not manifest_logs:
        raise NotFound(f"{os.fspath(root)}: no log has the name or the stream id {text}")
    if len(manifest_logs) > 1:
        names = ", ".join(item.log for item in manifest_logs)
        raise InputError(f"{text} is the stream id of several logs; use the name of one: {names}")
    return manifest_logs[0]


def _all(disk: Disk, root: PathLike) -> list[ManifestLog]:
    """Returns the manifest logs of all logs; skips logs whose stream id cannot be determined."""
    manifest_logs: list[ManifestLog] = []
    for name in log_names(disk, root):
        try:
            manifest_logs.append(_manifest_of(disk, LogPaths(root, name)))
        except LakebedError:
            continue
    return manifest_logs


def _manifest_of(disk: Disk, paths: LogPaths) -> ManifestLog:
    identity, problem = _identity(disk, paths)
    stream = identity.stream if identity is not None else _only_stream(disk, paths)
    reader = ManifestReader(disk, ManifestPaths(os.path.join(paths.manifest, stream)))
    is_enabled = None if identity is None else identity.manifest_log
    return ManifestLog(paths.name, paths, stream, is_enabled, problem, reader)


def _identity(disk: Disk, paths: LogPaths) -> tuple[LogIdentity | None, Problem | None]:
    """Returns the content of `log.json`, or a problem if the file is missing or damaged.

    Raises the error of a damaged file if there is no folder of a manifest log, and `UnknownVersion`
    if a newer version of Lakebed wrote the file.
    """
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
                f"log {paths.name} has neither a log.json nor a manifest log; opening it for "
                "writing creates a manifest log, unless that is switched off"
            )
        case streams:
            names = ", ".join(streams)
            raise Corrupt(
                f"the file is missing or damaged, and there are several manifest logs: {names}; "
                "only this file records which of them is in use: restore this file from a backup",
                path=paths.identity,
            )


def stream_folders(disk: ReadableDisk, paths: LogPaths) -> list[str]:
    """Returns the names of the folders that may hold a log's manifest log: all valid stream ids.

    A log normally has one such folder. It has none if it has no manifest log, and more if others
    were copied there.
    """
    if not disk.is_folder(paths.manifest):
        return []
    ids = map(parse_stream_name, disk.names(paths.manifest))
    return [stream_name(stream_id) for stream_id in ids if stream_id is not None]


def _why_nothing(disk: Disk, manifest_log: ManifestLog) -> str:
    if manifest_log.is_enabled is False:
        return "its manifest log is switched off and empty"
    names = disk.names(manifest_log.paths.segments)
    if any(SegmentName.parse(name) for name in names):
        return "its manifest log is empty; opening the log for writing records its segments"
    return "its manifest log is still empty"
