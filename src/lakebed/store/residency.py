"""Where the segments of a log are, as its manifest log says, for whoever only looks.

It is replayed without a lock: beside a writer it tells what is committed. A copy is durable before
the record that names it, and the record that says it will go is durable before it goes; so who
lists the files first, and replays then, finds every segment in one or the other.
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
"""By segment, in their order."""


def replayed(reader: ManifestReader) -> ReplayResult:
    """The manifest log of now, though its writer may remove chunks meanwhile."""
    for _ in range(_LOOKS_MAX - 1):
        with suppress(NotFound):
            return replay(reader)
    return replay(reader)


class RecordedStates(NamedTuple):
    """What the manifest log of a log says."""

    states: States
    problems: tuple[str, ...]  # why that may not be all


def recorded(disk: Disk, paths: LogPaths) -> RecordedStates:
    """Of every segment; none if the log has no manifest log, or one that cannot be read."""
    try:
        stream, lost = _stream(disk, paths)
        found = replayed(ManifestReader(disk, ManifestPaths(f"{paths.manifest}/{stream}")))
    except NotFound:
        return RecordedStates({}, ())
    except DataError as error:
        return RecordedStates({}, (str(error),))
    states = {state.segment_id: state for state in found.index.segments()}
    return RecordedStates(states, (*lost, *(damage.problem for damage in found.damages)))


def recorded_states(disk: Disk, paths: LogPaths) -> States:
    """The same, where what is wrong with it is for others to tell."""
    return recorded(disk, paths).states


def _stream(disk: Disk, paths: LogPaths) -> tuple[str, tuple[str, ...]]:
    """As `log.json` says; if that is lost, the only one there is, and that it is lost."""
    try:
        return load_identity(disk, paths).stream, ()
    except NotFound:
        names = disk.names(paths.manifest) if disk.is_folder(paths.manifest) else []
        streams = [name for name in names if parse_stream_name(name) is not None]
        if len(streams) != 1:
            raise
        return streams[0], (f"{paths.identity}: missing",)


def tiers_of(state: SegmentState) -> tuple[int, ...]:
    """The tiers that have the segment, hottest first."""
    return tuple(tier for tier, flag in TIERS.items() if state.residency & flag)


def tier_bytes(state: SegmentState, tier: int) -> int:
    """What a segment takes in a tier that has it."""
    return state.compressed_bytes if tier else state.resident_bytes


def warm_files(disk: Disk, paths: LogPaths) -> dict[int, str]:
    """The warm files that are there: their paths, by segment."""
    if not disk.is_folder(paths.warm):
        return {}
    found = ((name, WarmName.parse(name)) for name in disk.names(paths.warm))
    return {parsed.segment_id: os.path.join(paths.warm, name) for name, parsed in found if parsed}


def tier2_address(disk: Disk, paths: LogPaths, *, default: str) -> str:
    """As `log.json` has it; that of a log that is created now if it cannot be read."""
    try:
        return load_identity(disk, paths).tier2
    except (NotFound, DataError):
        return default


def tier2_place(root: PathLike, address: str) -> str:
    """An address as people read it: the folder of the root by its path."""
    return os.path.join(os.fspath(root), OWN_FOLDER) if address == OWN_FOLDER else address
