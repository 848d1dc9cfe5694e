"""A remote log is read in batches from the raw bytes of its segments, in every tier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakebed.aof.config import AofConfig
from lakebed.aof.conversion import to_interchange
from lakebed.aof.log import Aof
from lakebed.aof.record_batch import Record
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import Corrupt, NotFound
from lakebed.base.units import KIB, MIB
from lakebed.client.caller import Answer
from lakebed.client.errors import BadAnswer
from lakebed.client.log import RemoteLog
from lakebed.client.segment_range import SegmentRange, range_of
from lakebed.client.store import RemoteStore
from tests.http_api.live_api import HOST, LiveApi, open_api
from tests.store.lake_tiers import OBJECTS, SHARED

CONFIG = AofConfig(segment_bytes=1 * MIB)
SEGMENTS = 4
RECORDS = 500  # of a segment
MS_NS = 1_000_000


class CountingLog(RemoteLog):
    """Tells what was fetched of segments."""

    ranges: list[tuple[int, int | None, int]]  # segment, tier, bytes

    def segment_bytes(self, segment_id: int, **named: Any) -> SegmentRange:
        found = super().segment_bytes(segment_id, **named)
        self.ranges.append((segment_id, named["tier"], len(found.data)))
        return found

    @property
    def fetched_bytes(self) -> int:
        return sum(size for _, _, size in self.ranges)


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=CONFIG, tier_config=SHARED, object_config=OBJECTS) as opened:
        yield opened


@pytest.fixture
def log(live_api: LiveApi) -> Aof:
    """Sealed segments that do not compress well, and one that is open."""
    log, random = live_api.store.log("audit"), Random(7)
    for number in range(SEGMENTS + 1):
        payloads = [random.randbytes(1000) for _ in range(RECORDS)]
        log.append_records(payloads, ext_ids=number, timestamps=number + 1)
        log.flush()
        if number < SEGMENTS:
            log.seal_current_segment()
    return log


@contextmanager
def reading(live_api: LiveApi) -> Iterator[CountingLog]:
    with RemoteStore.open(f"http://{HOST}:{live_api.port}") as store:
        log = store.open_log("audit")
        log.__class__ = CountingLog
        assert isinstance(log, CountingLog)
        log.ranges = []
        yield log


def records(
    log: RemoteLog,
    start: RecordId | None = None,
    end: RecordId | None = None,
    *,
    fetch_bytes: int = 64 * KIB,
) -> list[Record]:
    batches = log.read_batches(start, end, batch_bytes_max=fetch_bytes)
    return [record for batch in batches for record in batch]


def spread_over_tiers(log: Aof) -> None:
    """One cold, one warm, the others hot."""
    log.tiers.upload([0, 1])
    log.tiers.evict([0], warm=True)
    log.tiers.evict([1])
    assert [info.tier for info in log.segments()] == [2, 1, 0, 0, 0]


@pytest.mark.parametrize("fetch_bytes", [4 * KIB, 64 * KIB, 8 * MIB])
def test_records_are_the_same_in_every_tier(live_api: LiveApi, log: Aof, fetch_bytes: int) -> None:
    expected = list(log.read())
    assert len(expected) == (SEGMENTS + 1) * RECORDS
    with reading(live_api) as there:
        assert records(there, fetch_bytes=fetch_bytes) == expected
    spread_over_tiers(log)
    with reading(live_api) as there:
        assert records(there, fetch_bytes=fetch_bytes) == expected
        tiers = {segment: tier for segment, tier, _ in there.ranges}
        assert tiers == {0: 2, 1: 1, 2: 0, 3: 0, 4: 0}
        for first, last in ((0, 1), (3, 1200), (499, 501), (1999, 2500), (2400, 2499)):
            start, end = (
                expected[first].record_id,
                expected[last].record_id if last < 2500 else None,
            )
            assert records(there, start, end, fetch_bytes=fetch_bytes) == expected[first:last]


def test_of_a_cold_segment_only_the_frames_that_are_needed_are_fetched(
    live_api: LiveApi, log: Aof
) -> None:
    expected = list(log.read())
    log.tiers.upload([0])
    log.tiers.evict([0], warm=True)
    with reading(live_api) as there:
        assert records(there, expected[300].record_id, expected[303].record_id) == expected[300:303]
        assert {(segment, tier) for segment, tier, _ in there.ranges} == {(0, 2)}
        assert there.fetched_bytes < 3 * 128 * KIB, "of half a megabyte"


def test_of_a_hot_segment_only_the_range_that_is_needed_is_fetched(
    live_api: LiveApi, log: Aof
) -> None:
    expected = list(log.read())
    with reading(live_api) as there:
        start, end = expected[300].record_id, expected[303].record_id
        assert records(there, start, end, fetch_bytes=8 * MIB) == expected[300:303]
        assert there.fetched_bytes < 16 * KIB


def test_a_segment_that_moves_from_tier_to_tier_is_read_on(live_api: LiveApi, log: Aof) -> None:
    expected = list(log.read())
    found: list[Record] = []
    moves: dict[int, Callable[[], object]] = {
        2: lambda: (log.tiers.upload(), log.tiers.evict()),
        6: lambda: log.tiers.evict(warm=True),
        10: lambda: log.tiers.hydrate([0]),
    }
    with reading(live_api) as there:
        for number, batch in enumerate(there.read_batches(batch_bytes_max=32 * KIB)):
            found += batch
            moves.get(number, int)()
        tiers = [tier for segment, tier, _ in there.ranges if segment == 0]
    assert found == expected
    assert list(dict.fromkeys(tiers)) == [0, 1, 2]
    assert tiers[-1] == 0


def test_damage_of_a_hot_segment_is_an_error_that_says_where(live_api: LiveApi, log: Aof) -> None:
    path = Path(log.segments()[1].path)
    flip(path, 200_000)
    with reading(live_api) as there, pytest.raises(Corrupt, match=path.name):
        records(there)


def test_a_damaged_warm_file_is_read_from_its_object_by_the_node(
    live_api: LiveApi, log: Aof
) -> None:
    expected = list(log.read())
    log.tiers.upload([1])
    log.tiers.evict([1])
    flip(Path(log.segments()[1].path), 200_000)
    with reading(live_api) as there:
        assert records(there) == expected
        assert records(there, expected[600].record_id, expected[990].record_id) == expected[600:990]


def test_an_interchange_segment_is_read_too(live_api: LiveApi, log: Aof, tmp_path: Path) -> None:
    expected = list(log.read(None, RecordId.from_parts(1, 0)))
    path, folder = Path(log.segments()[0].path), tmp_path / "converted"
    folder.mkdir()
    converted = to_interchange(
        live_api.store.disk, path, folder, stream_id=log.stream_id, lossy=True
    )
    Path(converted).replace(path)
    with reading(live_api) as there:
        found = records(there, end=RecordId.from_parts(1, 0))
    assert [record.payload for record in found] == [record.payload for record in expected]
    assert [record.record_id for record in found] == [record.record_id for record in expected]


def test_nothing_behind_the_planned_end_is_read(live_api: LiveApi, log: Aof) -> None:
    expected = list(log.read())
    with reading(live_api) as there:
        batches = there.read_batches(None, there.durable_end())
        log.append_records([b"later"] * 10)
        log.flush()
        assert [record for batch in batches for record in batch] == expected
        assert len(records(there)) == len(expected) + 10
        assert records(there, there.durable_end()) == []


def test_a_log_that_is_not_there_is_not_made(live_api: LiveApi) -> None:
    with RemoteStore.open(f"http://{HOST}:{live_api.port}") as store:
        with pytest.raises(NotFound, match="there is no log other"):
            store.open_log("other")
        assert store.logs() == []


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("size", ["", "x", "-1", "9" * 21, "11"])
def test_an_answer_that_does_not_fit_its_segment_is_refused(size: str) -> None:
    answer = Answer({"lakebed-size": size}, b"12")
    with pytest.raises(BadAnswer):
        range_of(answer, "log_segment_bytes", offset=10)
    fitting = range_of(Answer({"lakebed-size": "12"}, b"12"), "log_segment_bytes", offset=10)
    assert (bytes(fitting.data), fitting.size) == (b"12", 12)
