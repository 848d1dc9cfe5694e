"""Summarises a log from its files: its segments, its range of records, and its tiers."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.aof import durable_end
from lakebed.aof.format import SEGMENT_HEADER
from lakebed.aof.paths import SPARE_SUFFIX, LogPaths
from lakebed.aof.record_id import RecordId
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.residency import States, recorded_states, tier_bytes, tiers_of
from lakebed.store.segment_summary import (
    SegmentSummary,
    archived_segments,
    record_count,
    summarise_segments,
)


@dataclass(frozen=True, slots=True)
class TierTotal:
    """How many segments of a log are in one tier, and how many bytes they have there."""

    segments: int
    bytes: int  # uncompressed in Tier 0, compressed in Tiers 1 and 2


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The summary of one log. Positions are record ids as numbers."""

    name: str
    oldest: int | None  # the first record; None if the log is empty
    durable_end: int
    coordinator_watermark: int  # 0 if not known
    writer_epoch: int  # rises by 1 each time the log is opened for writing; 0 if not known
    segments: tuple[SegmentSummary, ...]  # first those in the archive, then those of the log
    tiers: tuple[TierTotal, ...]  # for Tier 0, Tier 1 and Tier 2
    spare_files: int  # files that are prepared for new segments
    ignored_files: int  # unexpected files in the segments folder

    def count(self, *states: str) -> int:
        return sum(segment.state in states for segment in self.segments)

    def total_bytes(self, *states: str) -> int:
        return sum(segment.bytes for segment in self.segments if segment.state in states)

    def records(self) -> int | None:
        """Returns the number of records in the log and its archive.

        Returns None if the number is not known; Tier 2 is not read to find it.
        """
        archived = sum(
            segment.records or 0 for segment in self.segments if segment.state == "archived"
        )
        held = record_count([segment for segment in self.segments if segment.state != "archived"])
        return None if held is None else archived + held


def summarise_log(store: ReadOnlyStore, name: str) -> LogSummary:
    """Summarises a log without reading the records of its sealed segments."""
    log = store.log(name)
    paths = LogPaths(store.root, name)
    end = log.durable_end()
    published = durable_end.load(store.disk, paths.durable_end)
    states = recorded_states(store.disk, paths)
    held = tuple(summarise_segments(store, name, states))
    names = store.disk.names(paths.segments)
    return LogSummary(
        name=name,
        oldest=_oldest(held),
        durable_end=int(end),
        coordinator_watermark=published.coordinator_watermark if published else 0,
        writer_epoch=published.writer_epoch if published else 0,
        segments=(*archived_segments(store.disk, paths), *held),
        tiers=(
            TierTotal(
                sum(0 in segment.tiers for segment in held),
                sum(segment.bytes for segment in held if 0 in segment.tiers),
            ),
            *(_total(states, tier) for tier in (1, 2)),
        ),
        spare_files=sum(name.endswith(SPARE_SUFFIX) for name in names),
        ignored_files=log.ignored_count,
    )


def _oldest(segments: tuple[SegmentSummary, ...]) -> int | None:
    with_records = [segment for segment in segments if segment.records != 0]
    if not with_records:
        return None
    return int(RecordId.from_parts(with_records[0].segment_id, SEGMENT_HEADER.size))


def _total(states: States, tier: int) -> TierTotal:
    held = [state for state in states.values() if tier in tiers_of(state)]
    return TierTotal(len(held), sum(tier_bytes(state, tier) for state in held))
