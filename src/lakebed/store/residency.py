"""Finds out for a reader in which tiers the segments of a log are, from the log's manifest log.

The manifest log records the changes of the tiers. It is replayed without a lock; while another
process writes, the result is the committed state. A copy of a segment is durable before the record
that names it, and the record of its removal is durable before the copy is removed. So a reader that
first lists the segment files, and then replays the manifest log, finds every segment of the log as
a file or in the manifest log.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from lakebed.aof.identity import OWN_FOLDER, load_identity
from lakebed.aof.manifest.paths import ManifestPaths, parse_stream_name
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.replay import ReplayResult, replay
from lakebed.aof.manifest.state import Residency, SegmentState
from lakebed.aof.paths import LogPaths
from lakebed.aof.tiers.names import WarmName
from lakebed.base.errors import DataError, NotFound
from lakebed.base.files import Disk, PathLike

TIERS = {0: Residency.TIER0, 1: Residency.TIER1, 2: Residency.TIER2}
_LOOKS_MAX = 3

States = dict[int, SegmentState]
"""The states of segments by their ids, in order."""


def replayed(reader: ManifestReader) -> ReplayResult:
    """Replays the manifest log; tries again, up to twice, if a file is removed meanwhile."""
    for _ in range(_LOOKS_MAX - 1):
        with suppress(NotFound):
            return replay(reader)
    return replay(reader)


class RecordedStates(NamedTuple):
    """The states of a log's segments according to its manifest log."""

    states: States
    problems: tuple[str, ...]  # why the states may be incomplete


def recorded(disk: Disk, paths: LogPaths) -> RecordedStates:
    """Returns the recorded state of every segment.

    Returns no states if the log has no manifest log, and no states but a problem if the manifest
    log cannot be found or read because of damage.
    """
    try:
        stream, lost = _stream(disk, paths)
        result = replayed(ManifestReader(disk, ManifestPaths(f"{paths.manifest}/{stream}")))
    except NotFound:
        return RecordedStates({}, ())
    except DataError as error:
        return RecordedStates({}, (str(error),))
    states = {state.segment_id: state for state in result.index.segments()}
    return RecordedStates(states, (*lost, *(damage.problem for damage in result.damages)))


def recorded_states(disk: Disk, paths: LogPaths) -> States:
    """Returns the recorded state of every segment; ignores damage of the manifest log.

    Because of damage, some or all states may be missing.
    """
    return recorded(disk, paths).states


def _stream(disk: Disk, paths: LogPaths) -> tuple[str, tuple[str, ...]]:
    """Returns the name of the manifest log's folder, from `log.json`, and no problems.

    If `log.json` is missing and there is only one folder of a manifest log, returns that folder and
    a problem. Otherwise raises `NotFound` if `log.json` is missing.
    """
    try:
        return load_identity(disk, paths).stream, ()
    except NotFound:
        names = disk.names(paths.manifest) if disk.is_folder(paths.manifest) else []
        streams = [name for name in names if parse_stream_name(name) is not None]
        if len(streams) != 1:
            raise
        return streams[0], (f"{paths.identity}: the file is missing",)


def tiers_of(state: SegmentState) -> tuple[int, ...]:
    """Returns the numbers of the tiers that have the segment, hottest first."""
    return tuple(tier for tier, flag in TIERS.items() if state.residency & flag)


def tier_bytes(state: SegmentState, tier: int) -> int:
    """Returns how many bytes a segment takes in `tier`, which must be one that has the segment."""
    return state.compressed_bytes if tier else state.resident_bytes


def warm_files(disk: Disk, paths: LogPaths) -> dict[int, str]:
    """Returns the paths of the log's warm files (its compressed segments in Tier 1).

    The keys are the segment ids.
    """
    if not disk.is_folder(paths.warm):
        return {}
    names = ((name, WarmName.parse(name)) for name in disk.names(paths.warm))
    return {parsed.segment_id: os.path.join(paths.warm, name) for name, parsed in names if parsed}


def tier2_address(disk: Disk, paths: LogPaths, *, default: str) -> str:
    """Returns the Tier 2 address in `log.json`; `default` if that file is missing or damaged."""
    try:
        return load_identity(disk, paths).tier2
    except (NotFound, DataError):
        return default


def tier2_place(root: PathLike, address: str) -> str:
    """Returns a Tier 2 address as it is shown in messages.

    The store's own folder is shown as a path; other addresses are unchanged.
    """
    return os.path.join(os.fspath(root), OWN_FOLDER) if address == OWN_FOLDER else address
