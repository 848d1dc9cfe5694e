"""One segment into the other layout and back: ids survive, losses are said, no half is left."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.aof.conversion import to_interchange, to_runtime
from lakebed.aof.format import SegmentFooter, SegmentHeader
from lakebed.aof.inspection import Inspection, SegmentLayout, Verdict
from lakebed.aof.interchange import (
    FooterFlags,
    InterchangeEncoder,
    InterchangeFooter,
    InterchangeHeader,
    InterchangeRecord,
    iterate_interchange,
)
from lakebed.aof.paths import ArchivedName
from lakebed.aof.segment_inspector import inspect_segment
from lakebed.base.errors import (
    AlreadyExists,
    BadName,
    Corrupt,
    InputError,
    LakebedError,
    NotFound,
    Torn,
    UnknownVersion,
)
from lakebed.base.files import Disk, make_folders, read_file, remove_temporaries, replace_atomically
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.kernels import aof_scan
from tests.aof.segments import (
    NAME,
    PAYLOADS,
    STREAM_ID,
    TIMESTAMPS,
    flipped,
    interchange_segment,
    runtime_segment,
)

pytestmark = pytest.mark.thorough

SOURCE = f"/in/{NAME}"
TARGET = f"/out/{NAME}"


@pytest.fixture
def disk() -> SimulatedDisk:
    return prepared(SimulatedDisk(Random(0)))


def prepared(disk: SimulatedDisk, data: bytes | None = None) -> SimulatedDisk:
    for folder in ("/in", "/out", "/back"):
        make_folders(disk, folder)
    if data is not None:
        replace_atomically(disk, SOURCE, data)
    return disk


def look(disk: Disk, path: str) -> Inspection:
    return inspect_segment(content(disk, path), name=NAME)


def content(disk: Disk, path: str) -> bytes:
    return read_file(disk, path, size_max=1 << 30)


def test_a_runtime_segment_becomes_an_interchange_segment(disk: SimulatedDisk) -> None:
    prepared(disk, runtime_segment())
    target = to_interchange(disk, SOURCE, "/out", stream_id=STREAM_ID, lossy=True)
    assert target == TARGET
    found = look(disk, target)
    assert (found.layout, found.verdict, found.is_sealed) == (
        SegmentLayout.INTERCHANGE,
        Verdict.WHOLE,
        True,
    )
    header, footer = found.header, found.footer
    assert isinstance(header, InterchangeHeader)
    assert isinstance(footer, InterchangeFooter)
    assert (header.stream_id, header.segment_id) == (STREAM_ID, 7)
    assert (footer.record_count, footer.ext_id, footer.flags) == (3, 41, FooterFlags.SEALED)
    assert content(disk, target) == interchange_segment()


def test_there_and_back_keeps_record_ids_payloads_and_milliseconds(disk: SimulatedDisk) -> None:
    original = runtime_segment()
    prepared(disk, original)
    exported = to_interchange(disk, SOURCE, "/out", stream_id=STREAM_ID, lossy=True)
    back = to_runtime(
        disk,
        exported,
        "/back",
        base_record_count=90,
        coordinator_watermark=77,
        sealed_at=1_700_000_001_000_000_004,
    )
    data, found = content(disk, back), look(disk, back)
    assert (found.layout, found.verdict, found.is_sealed) == (
        SegmentLayout.RUNTIME,
        Verdict.WHOLE,
        True,
    )
    before, after = aof_scan(original, 64, 416, count_max=9), aof_scan(data, 64, 416, count_max=9)
    assert after.offsets.tolist() == before.offsets.tolist()
    assert after.lengths.tolist() == before.lengths.tolist()
    assert after.timestamps.tolist() == [stamp // 10**6 * 10**6 for stamp in TIMESTAMPS]
    assert after.ext_ids.tolist() == [0, 0, 0]
    first, last = inspect_segment(original, name=NAME), found
    assert isinstance(first.footer, SegmentFooter)
    assert isinstance(last.footer, SegmentFooter)
    restored = last.footer._replace(
        checksum=first.footer.checksum,
        last_timestamp=first.footer.last_timestamp,
        payload_checksum=first.footer.payload_checksum,
    )
    assert restored == first.footer


def test_a_segment_without_fractions_and_ext_ids_comes_back_byte_for_byte(
    disk: SimulatedDisk,
) -> None:
    stamps = [stamp // 10**6 * 10**6 for stamp in TIMESTAMPS]
    original = runtime_segment(timestamps=stamps, ext_ids=[0, 0, 0])
    prepared(disk, original)
    exported = to_interchange(disk, SOURCE, "/out", stream_id=1, lossy=True)
    back = to_runtime(
        disk,
        exported,
        "/back",
        base_record_count=90,
        coordinator_watermark=77,
        sealed_at=1_700_000_001_000_000_004,
    )
    assert content(disk, back) == original


def test_what_would_be_lost_is_said_unless_it_may_be(disk: SimulatedDisk) -> None:
    prepared(disk, runtime_segment())
    with pytest.raises(InputError) as refused:
        to_interchange(disk, SOURCE, "/out", stream_id=1)
    for loss in ("nanoseconds of 3", "ext_ids of 3", "base record count", "watermark", "sealing"):
        assert loss in str(refused.value)
    assert disk.names("/out") == []


def test_flags_of_records_have_no_place_in_a_runtime_segment(disk: SimulatedDisk) -> None:
    prepared(disk, interchange_segment(record_flags=1))
    with pytest.raises(InputError, match="the flags of 3 records"):
        to_runtime(disk, SOURCE, "/out")
    assert look(disk, to_runtime(disk, SOURCE, "/out", lossy=True)).verdict is Verdict.WHOLE


def test_a_runtime_file_is_as_long_as_the_next_power_of_two(disk: SimulatedDisk) -> None:
    prepared(disk, interchange_segment([b"x" * 1000] * 9))
    found = look(disk, to_runtime(disk, SOURCE, "/out"))
    assert isinstance(found.header, SegmentHeader)
    assert found.header.max_size == 16_384
    assert (found.record_count, found.verdict) == (9, Verdict.WHOLE)


def test_many_and_large_records_are_converted_in_batches(disk: SimulatedDisk) -> None:
    payloads = [b"small"] * 9000 + [b"large" * 1_000_000] * 2
    count = len(payloads)
    original = runtime_segment(
        payloads, size=1 << 24, timestamps=[10**6] * count, ext_ids=[0] * count
    )
    prepared(disk, original)
    exported = to_interchange(disk, SOURCE, "/out", stream_id=1, lossy=True)
    found = look(disk, exported)
    assert (found.verdict, found.record_count) == (Verdict.WHOLE, count)
    back = content(disk, to_runtime(disk, exported, "/back", base_record_count=90))
    assert back[: 1 << 23] == original[: 1 << 23]


def test_a_compacted_segment_has_no_runtime_form(disk: SimulatedDisk) -> None:
    whole = interchange_segment()
    records = list(iterate_interchange(memoryview(whole), end=len(whole) - 40))
    encoder = InterchangeEncoder(stream_id=1, segment_id=7, creation_ts_ms=1_700_000_000_123)
    data = encoder.header() + encoder.records([records[0], records[2]])
    prepared(disk, data + encoder.footer(ext_id=0, flags=3))
    with pytest.raises(InputError, match="at segment offset 96 but is at 136"):
        to_runtime(disk, SOURCE, "/out")


def test_an_archived_segment_is_exported_under_its_own_name(disk: SimulatedDisk) -> None:
    archived = f"/in/{ArchivedName(7, 5)}"
    replace_atomically(disk, archived, runtime_segment())
    assert to_interchange(disk, archived, "/out", stream_id=1, lossy=True) == TARGET


@pytest.mark.parametrize(
    ("data", "error", "place"),
    [
        (flipped(runtime_segment(), 96 + 24), Corrupt, "at byte 96"),
        (flipped(runtime_segment(), 96 + 16), Corrupt, "payload_checksum"),
        (flipped(runtime_segment(is_sealed=False), 136 + 24), Torn, "at byte 136"),
        (runtime_segment(is_sealed=False), InputError, "not sealed"),
        (flipped(runtime_segment(), 500), InputError, "not sealed"),
        (flipped(runtime_segment(), 4), UnknownVersion, "found 3"),
        (bytes(512), InputError, "empty"),
        (b"", Torn, "too short"),
        (interchange_segment(), InputError, "has the interchange layout"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_its_place(
    disk: SimulatedDisk, data: bytes, error: type[LakebedError], place: str
) -> None:
    prepared(disk, data)
    with pytest.raises(error, match=place):
        to_interchange(disk, SOURCE, "/out", stream_id=1, lossy=True)
    assert disk.names("/out") == []


@pytest.mark.parametrize(
    ("data", "error", "place"),
    [
        (flipped(interchange_segment(), 96 + 32), Corrupt, "at byte 96"),
        (interchange_segment()[:-1], Torn, "at byte 192"),
        (interchange_segment(flags=FooterFlags.PARTIAL), InputError, "not sealed"),
        (interchange_segment([]), InputError, "empty"),
        (runtime_segment(), InputError, "has the runtime layout"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_its_place(
    disk: SimulatedDisk, data: bytes, error: type[LakebedError], place: str
) -> None:
    prepared(disk, data)
    with pytest.raises(error, match=place):
        to_runtime(disk, SOURCE, "/out")
    assert disk.names("/out") == []


def test_a_target_that_exists_is_never_replaced(disk: SimulatedDisk) -> None:
    prepared(disk, runtime_segment())
    for folder in ("/in", "/out"):
        if folder == "/out":
            replace_atomically(disk, TARGET, b"somebody's")
        with pytest.raises(AlreadyExists):
            to_interchange(disk, SOURCE, folder, stream_id=1, lossy=True)
    assert content(disk, TARGET) == b"somebody's"


def test_names_and_numbers_that_cannot_be_are_refused(disk: SimulatedDisk) -> None:
    prepared(disk, interchange_segment())
    replace_atomically(disk, "/in/any.seg", interchange_segment())
    with pytest.raises(BadName, match="base offset"):
        to_runtime(disk, "/in/any.seg", "/out")
    with pytest.raises(NotFound):
        to_runtime(disk, f"/in/{NAME._replace(segment_id=9)}", "/out")
    with pytest.raises(InputError, match="base_record_count is -1; it must be from 0"):
        to_runtime(disk, SOURCE, "/out", base_record_count=-1)
    with pytest.raises(InputError, match="sealed_at"):
        to_runtime(disk, SOURCE, "/out", sealed_at=1 << 63)
    with pytest.raises(InputError, match="stream_id"):
        to_interchange(disk, SOURCE, "/out", stream_id=1 << 64)


def test_times_that_do_not_fit_nanoseconds_are_refused(disk: SimulatedDisk) -> None:
    encoder = InterchangeEncoder(stream_id=1, segment_id=7, creation_ts_ms=1_700_000_000_123)
    record = InterchangeRecord(b"x", NAME.base_offset + 64, (1 << 64) - 1)
    data = encoder.header() + encoder.records([record])
    prepared(disk, data + encoder.footer(ext_id=0))
    with pytest.raises(InputError, match="newest timestamp"):
        to_runtime(disk, SOURCE, "/out", sealed_at=1)


class Conversions:
    """There and back; what was acknowledged must be whole after any crash."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []

    def run(self, world: World) -> None:
        prepared(world.disk, runtime_segment())
        exported = to_interchange(world.disk, SOURCE, "/out", stream_id=1, lossy=True)
        self.acknowledged.append(exported)
        self.acknowledged.append(to_runtime(world.disk, exported, "/back"))

    def check(self, world: World) -> None:
        for path in self.acknowledged:
            assert world.disk.exists(path), "an acknowledged file is gone"
        for folder in ("/out", "/back"):
            if world.disk.exists(folder):
                remove_temporaries(world.disk, folder)
                for name in world.disk.names(folder):
                    found = look(world.disk, f"{folder}/{name}")
                    assert (found.verdict, found.is_sealed) == (Verdict.WHOLE, True)
                    assert found.record_count == len(PAYLOADS)


def test_a_crash_leaves_no_target_or_a_whole_one() -> None:
    assert sweep(Conversions, seeds=range(2), survivors=range(5)) > 200


@pytest.mark.parametrize("operation", ["create", "pwrite", "fdatasync", "rename", "truncate"])
def test_a_failed_step_leaves_no_target_and_no_rubbish(operation: str) -> None:
    world = World(3)
    prepared(world.disk, interchange_segment())
    world.disk.faults.fail(operation)
    with pytest.raises(LakebedError):
        to_runtime(world.disk, SOURCE, "/out")
    assert world.disk.names("/out") == []
