"""Moves a log through all three tiers: append, seal, upload, evict, read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lakebed.aof.errors import WouldBlock
from lakebed.base.errors import LakebedError
from lakebed.node.demo.context import mib
from lakebed.store.tier_moves import Outcome

if TYPE_CHECKING:
    from lakebed.aof.tiers.log_tiers import Residence
    from lakebed.client.log import RemoteLog
    from lakebed.client.store import RemoteStore
    from lakebed.node.demo.context import DemoContext

LOG: Final = "trail"
SETTINGS: Final = (
    '# Small segments, so that a small log has several.\n[aof]\nsegment_bytes = "4MiB"\n'
)
TIERS: Final = (0, 1, 2)

MOVES: Final[Sequence[tuple[str, str, Mapping[str, bool]]]] = (
    ("uploaded", "upload", {}),
    ("evicted", "evict", {}),
    ("evicted --warm", "evict", {"warm": True}),
)

_BATCH_COUNT: Final = 5_000
_PAYLOAD_BYTES: Final = 120
_WAIT_S: Final = 30.0


class TierSizes(NamedTuple):
    """The bytes in each tier after a step."""

    step: str
    tier0_bytes: int
    tier1_bytes: int
    tier2_bytes: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The bytes in Tiers 0, 1 and 2."""
        return self.tier0_bytes, self.tier1_bytes, self.tier2_bytes


def roll(context: DemoContext, store: RemoteStore) -> list[TierSizes]:
    """Appends to the log and moves it through the tiers. Returns the bytes in each tier after each
    step.
    """
    count = context.scale.records
    log = store.log(LOG)
    began_ns = context.now_ns()
    _append(context, log, count)
    log.flush()
    rate = context.rate("log records appended", count, began_ns)
    log.seal_current_segment()
    held = [_tier_sizes("sealed", log)]
    for step, method, arguments in MOVES:
        context.watcher.begin(step, unit="segments")
        move = getattr(store.maintenance, method)
        _check_outcome(move(LOG, **arguments, progress=_progress_reporter(context)))
        held.append(_tier_sizes(step, log))
    places = [place for place in log.tiers.residency() if place.is_sealed]
    cold = sum(place.tiers == (2,) for place in places)
    context.check("log segments in Tier 2 only", expected=len(places), found=cold)
    found = _read(context, log, count)
    context.check("log records read back from Tier 2", expected=count, found=found)
    segments = "1 segment" if len(places) == 1 else f"{len(places)} segments"
    context.report(
        "tiers",
        f"{count:,} records appended at {rate:,}/s, in {segments}; "
        f"{mib(held[0].tier0_bytes)} in Tier 0 became {mib(held[-1].tier2_bytes)} in Tier 2 only; "
        f"{found:,} read back from there",
    )
    return held


def payload(number: int) -> bytes:
    """Returns the payload of a record, which contains the record's number."""
    return (b"record %d of a trail, step %d " % (number, number % 97)).ljust(_PAYLOAD_BYTES, b".")


def tier_sizes_of(step: str, places: Sequence[Residence]) -> TierSizes:
    """Returns the bytes of sealed segments in each tier; in Tiers 1 and 2, after compression."""
    sizes = [
        sum(
            place.compressed_bytes if tier else place.durable_bytes
            for place in places
            if place.is_sealed and tier in place.tiers
        )
        for tier in TIERS
    ]
    return TierSizes(step, *sizes)


def _tier_sizes(step: str, log: RemoteLog) -> TierSizes:
    return tier_sizes_of(step, log.tiers.residency())


def _append(context: DemoContext, log: RemoteLog, count: int) -> None:
    context.watcher.begin("append", total=count, unit="records")
    for start in range(0, count, _BATCH_COUNT):
        left = [payload(number) for number in range(start, min(start + _BATCH_COUNT, count))]
        while left:
            try:
                log.append_records(left)
                break
            except WouldBlock as error:  # the next segment is not ready yet
                left = left[len(error.record_ids) :]
                log.append_record_with_timeout(left.pop(0), _WAIT_S)
        context.watcher.advance(start)


def _read(context: DemoContext, log: RemoteLog, count: int) -> int:
    """Reads the log back, and returns how many records are as they were appended."""
    context.watcher.begin("read back", total=count, unit="records")
    found = number = 0
    for batch in log.read_batches():
        for record in batch:
            found += record.payload == payload(number)
            number += 1
        context.watcher.advance(number)
    return found


def _progress_reporter(context: DemoContext) -> Callable[[int, int], None]:
    return lambda done, _total: context.watcher.advance(done)


def _check_outcome(outcome: Outcome) -> None:
    errors: list[LakebedError] = [failed.error for failed in outcome.failed]
    errors += [outcome.stopped_by] if outcome.stopped_by is not None else []
    if errors:
        raise errors[0]
