"""Bytes that are not what they were: found before one of them leaves, told, and kept apart.

The version is marked and stays listed; everything else stays readable.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakebed.base.errors import Corrupt, DataError, UnknownVersion
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import Damaged
from lakebed.seglake.lake_check import verify
from lakebed.seglake.manifest import decode
from lakebed.seglake.model import Chunk, State
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.read_only import ReadOnlyLake
from lakebed.seglake.segment_file import RECORD_HEADER_BYTES
from lakebed.seglake.segment_id import segment_path
from lakebed.seglake.verification_report import Kind, Report
from tests.seglake.lake_worlds import (
    PATHS,
    ROOT,
    SMALL_CHUNK_BYTES,
    VERSIONED,
    Machine,
    content,
    use_small_chunks,
)

pytestmark = pytest.mark.thorough

SMALL = content(24, "small")
OTHER = content(300, "other")
LARGE = content(2 * SMALL_CHUNK_BYTES + 5000, "large")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_chunks(monkeypatch)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Three objects in segments that are sealed, and the lake opened again."""
    with Machine(World(1), "damaged") as machine:
        with machine.open() as lake:
            lake.buckets.create(VERSIONED)
            lake.objects.put(VERSIONED, "other", OTHER)
            lake.objects.put(VERSIONED, "small", SMALL)
            lake.objects.put(VERSIONED, "large", LARGE)
        machine.open()
        yield machine


def chunks_of(machine: Machine, key: str) -> tuple[Chunk, ...]:
    with machine.reading() as reader:
        found = reader.current_manifest(VERSIONED, key)
    assert found is not None
    return decode(found[1], path=key).chunks


def get(machine: Machine, key: str, byte_range: ByteRange | None = None) -> bytes:
    return machine.lake.objects.get(VERSIONED, key, byte_range=byte_range).read()


def states(machine: Machine) -> dict[str, State]:
    """Of what is listed, which both listings agree on."""
    objects = machine.lake.objects
    listed = {row.key: row.state for row in objects.list(VERSIONED).items}
    assert {row.key: row.state for row, _ in objects.list_versions(VERSIONED).items} == listed
    return listed


def verified(machine: Machine) -> Report:
    world = machine.world
    with ReadOnlyLake(
        ROOT,
        disk=world.disk,
        runner=world.runner,
        config=SeglakeConfig(cache_bytes=0),
        connector=machine.databases.connect,
    ) as lake:
        return verify(lake, runner=world.runner)


def flips(machine: Machine, path: str, start: int, end: int, *, every: int) -> Iterator[int]:
    """One bit at a time, put right again before the next; at least one of each byte."""
    bits = range(start * 8, end * 8)
    for place in bits if every == 1 else [byte * 8 + byte % 8 for byte in range(start, end, every)]:
        machine.world.disk.flip_bit(path, offset=place // 8, bit=place % 8)
        yield place // 8
        machine.world.disk.flip_bit(path, offset=place // 8, bit=place % 8)


def check_flips_in_a_record(machine: Machine, *, every: int) -> None:
    [chunk] = chunks_of(machine, "small")
    path = segment_path(PATHS.segments, chunk.segment_id)
    start = chunk.offset - RECORD_HEADER_BYTES
    for offset in flips(machine, path, start, chunk.offset + chunk.length, every=every):
        with pytest.raises(Damaged) as caught:
            get(machine, "small")
        assert (caught.value.path, caught.value.offset) == (path, chunk.offset), offset
    assert get(machine, "small") == SMALL  # all was put right


def test_a_flipped_bit_of_a_record_is_found_and_its_version_is_marked(machine: Machine) -> None:
    assert set(states(machine).values()) == {State.ACTIVE}
    check_flips_in_a_record(machine, every=2)
    active = State.ACTIVE
    assert states(machine) == {"large": active, "other": active, "small": State.DAMAGED}
    assert machine.lake.objects.head(VERSIONED, "small").state is State.DAMAGED
    assert (get(machine, "other"), get(machine, "large")) == (OTHER, LARGE)
    machine.world.restart(Crash.POWER)
    machine.open()
    assert states(machine)["small"] is State.DAMAGED
    assert machine.lake.objects.head(VERSIONED, "small").state is State.DAMAGED


@pytest.mark.sweep
def test_each_flipped_bit_of_a_record_is_found(machine: Machine) -> None:
    check_flips_in_a_record(machine, every=1)


def test_ranges_that_do_not_touch_the_damaged_chunk_are_served(machine: Machine) -> None:
    first, second, third = chunks_of(machine, "large")
    path = segment_path(PATHS.segments, second.segment_id)
    machine.world.disk.flip_bit(path, offset=second.offset + 77, bit=3)
    end = first.length + second.length
    with pytest.raises(Damaged):
        get(machine, "large")
    for inside in (
        ByteRange(0, first.length - 1),
        ByteRange(end, None),
        ByteRange(None, third.length),
        ByteRange(10, 10),
    ):
        start, stop = inside.resolve(len(LARGE))
        assert get(machine, "large", inside) == LARGE[start:stop]
    for touching in (
        ByteRange(first.length, first.length),  # a byte that is whole itself
        ByteRange(0, first.length),
        ByteRange(end - 1, None),
    ):
        with pytest.raises(Damaged):
            get(machine, "large", touching)
    assert states(machine)["large"] is State.DAMAGED


def test_pieces_in_front_of_the_damage_are_right_and_then_it_is_told(machine: Machine) -> None:
    _, second, _ = chunks_of(machine, "large")
    path = segment_path(PATHS.segments, second.segment_id)
    machine.world.disk.flip_bit(path, offset=second.offset)
    pieces = iter(machine.lake.objects.get(VERSIONED, "large"))
    assert bytes(next(pieces)) == LARGE[:SMALL_CHUNK_BYTES]
    with pytest.raises(Damaged):
        next(pieces)


def test_damage_is_told_also_if_it_cannot_be_noted(machine: Machine) -> None:
    [chunk] = chunks_of(machine, "small")
    path = segment_path(PATHS.segments, chunk.segment_id)
    machine.world.disk.flip_bit(path, offset=chunk.offset)
    machine.world.disk.faults.fail("fdatasync")
    with pytest.raises(Damaged):
        get(machine, "small")
    with pytest.raises(Damaged):
        get(machine, "small")
    assert states(machine)["small"] is State.DAMAGED


def test_a_damaged_object_can_be_replaced_and_deleted(machine: Machine) -> None:
    [chunk] = chunks_of(machine, "small")
    path = segment_path(PATHS.segments, chunk.segment_id)
    machine.world.disk.flip_bit(path, offset=chunk.offset)
    with pytest.raises(Damaged):
        get(machine, "small")
    lake = machine.lake
    damaged_id = lake.objects.head(VERSIONED, "small").version_id
    lake.objects.put(VERSIONED, "small", SMALL)
    assert get(machine, "small") == SMALL
    with pytest.raises(Damaged):
        lake.objects.get(VERSIONED, "small", version_id=damaged_id).read()
    lake.objects.delete(VERSIONED, "small", version_id=damaged_id)
    assert states(machine)["small"] is State.ACTIVE


def test_a_flipped_bit_behind_the_records_hurts_no_reader_and_is_found(machine: Machine) -> None:
    """Bloom filter, index, footer, and the file's header: reading needs none of them."""
    segment_id = chunks_of(machine, "small")[0].segment_id
    path = segment_path(PATHS.segments, segment_id)
    with machine.reading() as reader:
        [row] = [row for row in reader.segments() if row.segment_id == segment_id]
    inside = [chunk for key in ("other", "small", "large") for chunk in chunks_of(machine, key)]
    data_end = max(one.offset + one.length for one in inside if one.segment_id == segment_id)
    places = [(0, 8, 3), (data_end, row.size - 64, 17), (row.size - 64, row.size, 5)]
    for start, end, every in places:
        for offset in flips(machine, path, start, end, every=every):
            assert get(machine, "small") == SMALL
            problems = verified(machine).problems
            assert [one.kind for one in problems] == [Kind.SEGMENT], offset
            assert problems[0].path == path
    assert verified(machine).problems == []


def check_flips_in_a_manifest(machine: Machine, *, every: int) -> None:
    [(row_id, data)] = machine.sql(
        "SELECT m.id, m.data FROM manifests m JOIN versions v ON v.id = m.id WHERE v.key = ?",
        b"small",
    )
    for place in range(0, len(data) * 8, every):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        machine.sql("UPDATE manifests SET data = ? WHERE id = ?", bytes(flipped), row_id)
        for ask in (lambda: get(machine, "small"),
                    lambda: machine.lake.objects.head(VERSIONED, "small")):  # fmt: skip
            with pytest.raises(DataError):
                ask()
    assert get(machine, "other") == OTHER
    assert list(states(machine)) == ["large", "other", "small"]
    problems = verified(machine).problems
    assert [(one.kind, one.key) for one in problems] == [(Kind.METADATA, "small")]
    with pytest.raises(DataError):
        machine.lake.objects.copy(VERSIONED, "small", VERSIONED, "copy")


def test_a_flipped_bit_of_a_manifest_is_found(machine: Machine) -> None:
    check_flips_in_a_manifest(machine, every=13)


@pytest.mark.sweep
def test_each_flipped_bit_of_a_manifest_is_found(machine: Machine) -> None:
    check_flips_in_a_manifest(machine, every=1)


def test_an_object_with_a_damaged_manifest_can_be_replaced_and_deleted(machine: Machine) -> None:
    lake = machine.lake
    damaged_id = lake.objects.head(VERSIONED, "small").version_id
    machine.sql("UPDATE manifests SET data = x'00' WHERE version_id = ?", damaged_id)
    lake.objects.put(VERSIONED, "small", SMALL)
    assert get(machine, "small") == SMALL
    lake.objects.delete(VERSIONED, "small", version_id=damaged_id)
    machine.pass_time()
    assert verified(machine).problems == []


def test_a_missing_segment_is_told_and_comes_back_with_its_file(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    world = machine.world
    segment_id = chunks_of(machine, "small")[0].segment_id
    path = segment_path(PATHS.segments, segment_id)
    world.restart(Crash.KILL)
    world.disk.rename(path, "/elsewhere")
    lake = machine.open()
    assert [(found, damage.why) for found, damage in lake.damage] == [
        (segment_id, "the file is missing")
    ]
    [logged] = [line for line in caplog.messages if segment_id in line]
    assert logged == f"segment {segment_id}: at byte 0: the file is missing"
    with pytest.raises(Damaged, match="the segment file is missing"):
        get(machine, "small")
    assert states(machine)["small"] is State.DAMAGED
    lake.objects.put(VERSIONED, "new", SMALL)
    assert get(machine, "new") == SMALL
    lake.close()
    world.disk.rename("/elsewhere", path)
    assert machine.open().damage == []
    assert get(machine, "small") == SMALL


def test_a_segment_that_was_cut_is_told_and_serves_what_is_left(machine: Machine) -> None:
    world = machine.world
    [chunk] = chunks_of(machine, "small")
    [other] = chunks_of(machine, "other")
    assert (other.segment_id, other.offset < chunk.offset) == (chunk.segment_id, True)
    path = segment_path(PATHS.segments, chunk.segment_id)
    world.restart(Crash.KILL)
    with world.disk.open(path, writable=True) as file:
        file.truncate(chunk.offset + 3)
        file.sync()
    lake = machine.open()
    assert [found for found, _ in lake.damage] == [chunk.segment_id]
    with pytest.raises(Damaged, match="ends before the end of the chunk"):
        get(machine, "small")
    assert get(machine, "other") == OTHER
    assert states(machine)["small"] is State.DAMAGED


@pytest.mark.parametrize("lost", ["a bit", "the end", "the file"])
def test_damage_of_a_segment_that_a_crash_left_open_is_told_and_kept(lost: str) -> None:
    with Machine(World(2), "open") as machine:
        lake = machine.open()
        lake.buckets.create(VERSIONED)
        for key, data in (("first", OTHER), ("damaged", SMALL), ("last", OTHER[::-1])):
            lake.objects.put(VERSIONED, key, data)
        [chunk] = chunks_of(machine, "damaged")
        path = segment_path(PATHS.segments, chunk.segment_id)
        disk = machine.world.disk
        machine.world.restart(Crash.POWER)
        if lost == "a bit":
            disk.flip_bit(path, offset=chunk.offset, bit=5)
        elif lost == "the end":
            with disk.open(path, writable=True) as file:
                file.truncate(chunk.offset + 5)
                file.sync()
        else:
            disk.unlink(path)
        lake = machine.open()
        assert {found for found, _ in lake.damage} == {chunk.segment_id}
        with pytest.raises(Damaged):
            get(machine, "damaged")
        left = {"a bit": ["first", "last"], "the end": ["first"], "the file": []}[lost]
        for key, data in (("first", OTHER), ("last", OTHER[::-1])):
            if key in left:
                assert get(machine, key) == data
            else:
                with pytest.raises(Damaged):
                    get(machine, key)
        lake.objects.put(VERSIONED, "damaged", SMALL)
        lake.close()
        machine.open()
        assert get(machine, "damaged") == SMALL
        assert disk.exists(PATHS.quarantine) == (lost != "the file")


def test_a_damaged_manifest_does_not_keep_a_damaged_segment_from_opening() -> None:
    with Machine(World(2), "open") as machine:
        lake = machine.open()
        lake.buckets.create(VERSIONED)
        for key in ("one", "two", "three"):
            lake.objects.put(VERSIONED, key, content(100, key))
        [chunk] = chunks_of(machine, "two")
        path = segment_path(PATHS.segments, chunk.segment_id)
        version_id = lake.objects.head(VERSIONED, "one").version_id
        machine.sql("UPDATE manifests SET data = x'00' WHERE version_id = ?", version_id)
        machine.world.restart(Crash.KILL)
        machine.world.disk.flip_bit(path, offset=chunk.offset)
        lake = machine.open()
        assert [found for found, _ in lake.damage] == [chunk.segment_id]
        assert get(machine, "three") == content(100, "three")


def test_files_that_are_no_segments_are_left_alone(machine: Machine) -> None:
    disk = machine.world.disk
    machine.lake.close()
    names = ["notes.txt", "018bcfe56800.seg", "018bcfe568001e7e4ef2a6fb.seg.tmp", ".seg"]
    for name in names:
        with disk.create(f"{PATHS.segments}/{name}") as file:
            file.write_and_sync(0, [b"garbage"])
    disk.make_folder(f"{PATHS.segments}/folder.seg")
    assert machine.open().damage == []
    assert {*names, "folder.seg"} <= set(disk.names(PATHS.segments))
    assert (get(machine, "small"), get(machine, "large")) == (SMALL, LARGE)
    report = verified(machine)
    assert (report.problems, len(report.notes)) == ([], 5)


@pytest.mark.parametrize(
    "garbage", [b"", b"garbage" * 999, bytes(9999), b"SLGS\1\0\0\0" + b"x" * 99]
)
def test_garbage_with_the_name_of_a_segment_hurts_nobody(machine: Machine, garbage: bytes) -> None:
    disk = machine.world.disk
    machine.lake.close()
    with disk.create(f"{PATHS.segments}/{'ab' * 12}.seg") as file:
        file.write_and_sync(0, [garbage])
    machine.open()
    machine.lake.objects.put(VERSIONED, "new", SMALL)
    for key, data in (("small", SMALL), ("large", LARGE), ("new", SMALL)):
        assert get(machine, key) == data
    assert verified(machine).problems == []


def test_a_folder_with_the_name_of_a_segment_is_told(machine: Machine) -> None:
    machine.lake.close()
    machine.world.disk.make_folder(f"{PATHS.segments}/{'ab' * 12}.seg")
    assert [found for found, _ in machine.open().damage] == ["ab" * 12]
    assert get(machine, "small") == SMALL


def everything(machine: Machine) -> dict[str, bytes]:
    """All files, with their bytes."""
    disk = machine.world.disk
    found = {}
    todo = [ROOT]
    while todo:
        path = todo.pop()
        if disk.is_folder(path):
            todo += [f"{path}/{name}" for name in disk.names(path)]
        else:
            with disk.open(path) as file:
                found[path] = file.pread(0, file.size())
    return found


def replace_database(machine: Machine, data: bytes) -> None:
    disk = machine.world.disk
    for path in (PATHS.database, f"{PATHS.database}-wal"):
        if disk.exists(path):
            disk.unlink(path)
    with disk.create(PATHS.database) as file:
        file.write_and_sync(0, [data])
    disk.sync_folder(ROOT)


@pytest.mark.parametrize("data", [b"not a database\n" * 400, b"x", b"\xff" * 9000])
def test_metadata_that_are_no_database_are_refused_and_left_alone(
    machine: Machine, data: bytes
) -> None:
    machine.lake.close()
    replace_database(machine, data)
    before = everything(machine)
    for _ in range(2):
        with pytest.raises(Corrupt, match=PATHS.database):
            machine.open()
    assert everything(machine) == before


def test_metadata_of_a_newer_version_are_refused_and_left_alone(machine: Machine) -> None:
    machine.lake.close()
    machine.sql("INSERT INTO schema_migrations VALUES (99, 0)")
    machine.world.restart(Crash.KILL)
    before = everything(machine)
    for _ in range(2):
        with pytest.raises(UnknownVersion, match="newer version"):
            machine.open()
    assert everything(machine) == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_of_something_else_is_refused_and_left_alone(
    machine: Machine, mode: str
) -> None:
    machine.lake.close()
    replace_database(machine, b"")
    machine.sql(f"PRAGMA journal_mode = {mode}")
    machine.sql("CREATE TABLE theirs (one)")
    before = everything(machine)
    for _ in range(2):
        with pytest.raises(Corrupt, match="another program"):
            machine.open()
    assert everything(machine) == before


def test_a_page_of_the_metadata_that_is_damaged_is_told(machine: Machine) -> None:
    machine.lake.close()
    with machine.world.disk.open(PATHS.database) as file:
        pages = file.size() // 4096
    machine.world.restart(Crash.KILL)
    told = 0
    for page in range(pages):
        twin = Machine(machine.world.copy(), "twin")
        with twin, twin.world.disk.open(PATHS.database, writable=True) as file:
            file.pwrite(page * 4096, b"\xa5" * 4096)
            try:
                with twin.open():
                    for key, data in (("other", OTHER), ("small", SMALL), ("large", LARGE)):
                        assert get(twin, key) == data
                    assert verified(twin).problems != []
            except DataError:
                told += 1
    assert told > 3
