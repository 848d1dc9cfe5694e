"""Finds the segments of a log that are only in colder tiers, for logs opened read-only.

The manifest log lists these segments. It is replayed only if segments may be missing from the local
folder, and replayed again only if it changed since the last replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lakebed.aof.identity import find_identity
from lakebed.aof.manifest.format import CHUNK_HEADER
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.replay import replay
from lakebed.aof.manifest.state import SegmentState
from lakebed.aof.paths import LogPaths
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.services import TierServices
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import NotFound
from lakebed.base.files import Disk

_Stamp = tuple[object, ...]


class ColdCatalogue:
    """Lists the segments of one log that are only in colder tiers.

    Only one thread may use it at a time.
    """

    def __init__(self, disk: Disk, paths: LogPaths, services: TierServices) -> None:
        self._disk = disk
        self._paths = paths
        self._services = services
        self._reader: ManifestReader | None = None
        self._replayed: tuple[_Stamp, list[SegmentInfo]] = ((), [])
        self._states: dict[int, SegmentState] = {}  # replaced as a whole
        self.cold: ColdSegments | None = None

    def completed(self, local: Sequence[SegmentInfo]) -> tuple[SegmentInfo, ...]:
        """Returns the `local` segments and those that are only in colder tiers, ordered by id."""
        if _is_whole(local) or not self._open():
            return tuple(local)
        local_ids = {info.segment_id for info in local}
        cold = [info for info in self._list_cold() if info.segment_id not in local_ids]
        return tuple(sorted([*local, *cold], key=lambda info: info.segment_id))

    def _open(self) -> bool:
        """Opens the manifest log on the first call; returns False if the log's id is not known.

        Without the id, the folder of the manifest log cannot be found.
        """
        if self._reader is None:
            try:
                identity = find_identity(self._disk, self._paths, tier2=self._services.address)
            except NotFound:
                return False
            self.cold = self._services.cold(self._paths, identity.tier2)
            self.cold.look_up = self._look_up
            folder = f"{self._paths.manifest}/{identity.stream}"
            self._reader = ManifestReader(self._disk, ManifestPaths(folder))
        return True

    def _list_cold(self) -> list[SegmentInfo]:
        assert self._reader is not None
        assert self.cold is not None
        stamp = self._stamp(self._reader)
        if stamp != self._replayed[0] or not stamp:
            index = replay(self._reader).index
            self._states = {state.segment_id: state for state in index.segments()}
            self._replayed = (stamp, self.cold.infos(iter(self._states.values())))
        return self._replayed[1]

    def _look_up(self, segment_id: int) -> SegmentState | None:
        return self._states.get(segment_id)

    def _stamp(self, reader: ManifestReader) -> _Stamp:
        """Returns a value that changes with each commit; empty if the manifest log has no chunk.

        Empty, too, if the last chunk is removed meanwhile.
        """
        indexes = reader.chunk_indexes()
        if not indexes:
            return ()
        try:
            with self._disk.open(reader.paths.chunk(indexes[-1])) as file:
                return (indexes[-1], file.pread(0, CHUNK_HEADER.size))
        except NotFound:
            return ()


def _is_whole(local: Sequence[SegmentInfo]) -> bool:
    """Returns whether the list has all segments, from the log's first to the active segment."""
    if not local or local[0].base_offset or local[-1].is_sealed:
        return False
    return all(info.segment_id + 1 == following.segment_id for info, following in pairwise(local))
