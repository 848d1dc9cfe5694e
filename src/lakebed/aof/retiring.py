"""Carries out what retention decides: reads the facts it needs once, deletes or archives."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from lakebed.aof.config import RetentionConfig
from lakebed.aof.paths import ArchivedName, LogPaths, SegmentName
from lakebed.aof.recovery import read_footer
from lakebed.aof.retention import Sealed, expired, is_wanted, next_look_ns
from lakebed.aof.sparse_index import remove_index
from lakebed.aof.view import SegmentInfo
from lakebed.base.counters import Counters
from lakebed.base.errors import NotFound
from lakebed.base.files import Disk


class Retiring:
    """One thread at a time: the manager's maintenance."""

    def __init__(
        self, disk: Disk, paths: LogPaths, config: RetentionConfig, *, counters: Counters
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._config = config
        self._facts: dict[int, Sealed] = {}
        self._retired = counters.counter("aof_segments_retired")
        self._retired_bytes = counters.counter("aof_segments_retired_bytes")

    def plan(
        self,
        sealed: Sequence[SegmentInfo],
        *,
        now_ns: int,
        is_needed: Callable[[int], bool],
    ) -> tuple[list[SegmentInfo], int | None]:
        """The segments to remove, and the ns until age alone will ask for more."""
        if not is_wanted(self._config):
            return [], None
        facts = [self._fact(info) for info in sealed]
        gone = expired(facts, config=self._config, now_ns=now_ns, is_needed=is_needed)
        delay_ns = next_look_ns(facts[len(gone) :], config=self._config, now_ns=now_ns)
        return [info for info in sealed if info.segment_id in gone], delay_ns

    def remove(self, gone: Sequence[SegmentInfo]) -> None:
        """Delete them, or move them to the archive: durable when it returns."""
        for info in gone:
            fact = self._facts.pop(info.segment_id)
            remove_index(self._disk, info.path)
            with contextlib.suppress(NotFound):
                if self._config.archive:
                    name = ArchivedName(info.segment_id, fact.sealed_at)
                    self._disk.rename(info.path, self._paths.archived(name))
                else:
                    self._disk.unlink(info.path)
            self._retired.add()
            self._retired_bytes.add(fact.size)
        if self._config.archive:
            self._disk.sync_folder(self._paths.archive)
        self._disk.sync_folder(self._paths.segments)

    def _fact(self, info: SegmentInfo) -> Sealed:
        """From the footer. One that is damaged counts as sealed when it was made."""
        if info.segment_id not in self._facts:
            name = SegmentName(info.segment_id, info.base_offset, info.created_at)
            with self._disk.open(info.path) as file:
                footer = read_footer(file, info.path, name)
                size = file.size() if footer is None else footer.durable_bytes
            sealed_at = info.created_at if footer is None else footer.sealed_at
            self._facts[info.segment_id] = Sealed(info.segment_id, size, sealed_at)
        return self._facts[info.segment_id]
