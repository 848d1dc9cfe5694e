"""From files to state: snapshots and what stands in for them, damage, earlier moments."""

from __future__ import annotations

import dataclasses

import pytest

from lakebed.aof.manifest.chunk import Verdict, encode_header
from lakebed.aof.manifest.format import CHUNK_HEADER, SegmentOpened
from lakebed.aof.manifest.records import CustomEvent, Position
from lakebed.aof.manifest.replay import Moment, replay
from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from tests.aof.manifest.journals import FOLDER, QUARANTINE, SMALL, Opened, folded, reader, stored

MS = 10**6
UNTIMED = dataclasses.replace(SMALL, snapshot_chunks=1000)


def written(world: World, *, chunks: int = 4, snapshots: int = 0) -> None:
    """Segments opened one by one over several chunks, snapshots in between; left by a crash."""
    journal = Opened(world, UNTIMED).journal
    number = 0
    while journal.end.chunk_index < chunks - 1 or number % 10:
        world.clock.advance(MS)
        journal.append(SegmentOpened(number * 10, 1), segment_id=number, logical_offset=number * 10)
        journal.append(CustomEvent(1, b"x" * 700), segment_id=number, logical_offset=0)
        number += 1
        if snapshots and number % 15 == 0:
            journal.take_snapshot()
            snapshots -= 1
    journal.commit()
    world.restart(Crash.KILL)


def change(world: World, name: str, offset: int, data: bytes) -> None:
    with world.disk.open(f"{FOLDER}/{name}", writable=True) as file:
        file.pwrite(offset, data)
        file.sync()


def chunk_name(index: int) -> str:
    return f"{index:020}.mlog"


def test_replay_from_a_snapshot_equals_replay_from_the_start() -> None:
    world = World(1)
    written(world, snapshots=3)
    found = replay(reader(world))
    assert found.snapshot is not None
    assert found.snapshot.snapshot_id == 3
    assert found.record_count < len(stored(world))
    assert found.index == folded(stored(world))


def test_a_damaged_snapshot_is_passed_over_for_the_one_before_it_or_the_start() -> None:
    world = World(1)
    written(world, snapshots=2)
    expected = folded(stored(world))
    change(world, "snapshot_00000000000000000002.bin", 100, b"\xff\xfe")
    found = replay(reader(world))
    assert found.snapshot is not None
    assert found.snapshot.snapshot_id == 1
    assert found.index == expected
    assert any("is ignored" in problem for problem in found.problems)
    change(world, "snapshot_00000000000000000001.bin", 0, b"\0" * 64)
    found = replay(reader(world))
    assert found.snapshot is None
    assert found.index == expected
    again = Opened(world, UNTIMED)
    again.journal.append(CustomEvent(1, b"x"), segment_id=0, logical_offset=0)
    assert again.journal.take_snapshot() > 2, "a number is never used again"


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_state_as_of_any_position_is_the_fold_of_what_is_before_it(with_snapshot: bool) -> None:
    world = World(2)
    written(world, chunks=3, snapshots=2 if with_snapshot else 0)
    placed = list(reader(world).records())
    for number in range(0, len(placed), 7):
        moment = Moment(position=placed[number].position)
        before = [one.record for one in placed[:number]]
        assert replay(reader(world), moment).index == folded(before)


@pytest.mark.parametrize("removed_at", ["snapshot_00000000000000000001.bin", "chunk"])
def test_files_that_the_writer_removes_meanwhile_are_not_damage(removed_at: str) -> None:
    world = World(2)
    written(world, chunks=6, snapshots=2)
    expected = folded(stored(world))
    first, second = (reader(world).snapshot(number) for number in (1, 2))
    unneeded = range(second.position.chunk_index)
    assert first.position.chunk_index in unneeded
    new, away = reader(world).paths.snapshot(2), f"{FOLDER}/away"
    world.disk.rename(new, away)  # it is not written yet
    name = chunk_name(first.position.chunk_index) if removed_at == "chunk" else removed_at
    file_open = world.disk.open

    def remove_and_open(path: str, *, writable: bool = False) -> object:
        if path == f"{FOLDER}/{name}" and world.disk.exists(away):
            world.disk.rename(away, new)
            world.disk.unlink(reader(world).paths.snapshot(1))
            for index in unneeded:
                world.disk.unlink(reader(world).paths.chunk(index))
        return file_open(path, writable=writable)

    world.disk.open = remove_and_open  # type: ignore[method-assign, assignment]
    found = replay(reader(world))
    assert (found.damages, found.problems) == ([], [])
    assert found.index == expected


def test_a_chunk_that_is_removed_under_a_reader_of_records_is_reported_as_missing() -> None:
    world = World(2)
    written(world)
    records = reader(world).records()
    next(records)
    world.disk.unlink(reader(world).paths.chunk(1))
    with pytest.raises(Corrupt, match=f"{chunk_name(1)}: the chunk is missing"):
        list(records)


def test_state_as_of_any_time_is_the_fold_of_what_was_recorded_until_then() -> None:
    world = World(3)
    written(world, chunks=3, snapshots=2)
    records = stored(world)
    for time_ms in range(records[0].timestamp_ms - 1, records[-1].timestamp_ms + 2, 5):
        until = [record for record in records if record.timestamp_ms <= time_ms]
        assert replay(reader(world), Moment(timestamp_ms=time_ms)).index == folded(until)


def test_a_damaged_sealed_chunk_is_kept_saved_and_told_and_the_rest_is_replayed() -> None:
    world = World(4)
    written(world)
    named = {r.record.segment_id for r in reader(world).records(Position(1, 0), Position(2, 0))}
    change(world, chunk_name(1), 5000, b"\xff" * 8)
    with world.disk.open(f"{FOLDER}/{chunk_name(1)}") as file:
        damaged = file.pread(0, file.size())
    opened = Opened(world, UNTIMED)
    (damage,) = opened.replayed.damages
    assert damage.chunk_index == 1
    assert damage.segment_ids <= named
    assert len(damage.segment_ids) >= len(named) - 1
    assert opened.counters.snapshot().counters["manifest_crc_error_count"] == 1
    (saved,) = world.disk.names(QUARANTINE)
    with world.disk.open(f"{QUARANTINE}/{saved}") as file:
        assert file.pread(0, file.size()) == damaged
    with world.disk.open(f"{FOLDER}/{chunk_name(1)}") as file:
        assert file.pread(0, file.size()) == damaged, "it stays as it is"
    last = max(state.segment_id for state in opened.journal.index().segments())
    assert last not in named
    with pytest.raises(Corrupt, match="checksum"):
        list(reader(world).records())


PLACES = {
    "magic": CHUNK_HEADER.offset_of("magic"),
    "crc": CHUNK_HEADER.offset_of("chunk_crc64"),
    "payload": 5000,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_chunk_between_others_that_is_not_whole_is_left_out_saved_and_told(
    place: str, is_sealed: bool
) -> None:
    world = World(4)
    written(world)
    if not is_sealed:
        change(world, chunk_name(1), CHUNK_HEADER.offset_of("flags"), bytes(8))
    records = [one.record for one in reader(world).records(Position(1, 0), Position(2, 0))]
    named = {record.segment_id for record in records}
    opened_in = {r.segment_id for r in records if isinstance(r.payload, SegmentOpened)}
    whole = replay(reader(world)).index
    change(world, chunk_name(1), PLACES[place], b"\xff" * 4)
    opened = Opened(world, UNTIMED)
    (damage,) = opened.replayed.damages
    assert damage.chunk_index == 1
    lost = named - damage.segment_ids
    assert len(lost) <= (place == "payload"), "only what the damage itself hides"
    assert world.disk.names(QUARANTINE) == [f"manifest-00000000000000aa-{chunk_name(1)}"]
    known = {state.segment_id for state in opened.journal.index().segments()}
    assert known == {state.segment_id for state in whole.segments()} - opened_in
    with pytest.raises(Corrupt, match=chunk_name(1)):
        list(reader(world).records())


def test_behind_a_lost_chunk_the_records_of_the_open_one_are_believed() -> None:
    world = World(4)
    written(world)
    last = reader(world).chunk(3)
    opened = {one.record.segment_id for one in last.records[1:]}  # the first is about one before
    change(world, chunk_name(2), PLACES["magic"], b"\xff")
    change(world, chunk_name(3), PLACES["crc"], b"\xff" * 8)  # as a torn commit leaves it
    found = replay(reader(world))
    assert [damage.chunk_index for damage in found.damages] == [2]
    assert opened <= {state.segment_id for state in found.index.segments()}
    assert found.end == Position(3, last.end)


def test_a_missing_chunk_is_told() -> None:
    world = World(5)
    written(world)
    world.disk.unlink(f"{FOLDER}/{chunk_name(1)}")
    found = replay(reader(world))
    assert [damage.chunk_index for damage in found.damages] == [1]
    assert "missing" in found.problems[0]
    with pytest.raises(Corrupt, match="missing"):
        list(reader(world).records())


def test_chunks_before_the_snapshot_are_not_needed() -> None:
    world = World(6)
    written(world, snapshots=3)
    expected = folded(stored(world))
    found = replay(reader(world))
    assert found.snapshot is not None
    for index in range(found.snapshot.position.chunk_index):
        world.disk.unlink(f"{FOLDER}/{chunk_name(index)}")
    again = replay(reader(world))
    assert again.problems == []
    assert again.index == expected


def test_chunks_are_told_apart_by_their_ordinals() -> None:
    world = World(6)
    written(world)
    judged = reader(world).chunk(2)
    assert judged.header is not None
    header = encode_header(
        chunk_index=2,
        base_record=judged.header.base_record + 1,
        end=judged.end,
        chunk_crc64=judged.header.chunk_crc64,
        flags=judged.header.flags,
    )
    change(world, chunk_name(2), 0, header)
    assert any(
        "the chunk begins with record" in problem for problem in replay(reader(world)).problems
    )


def test_a_newer_chunk_or_snapshot_is_refused_with_its_path() -> None:
    world = World(7)
    written(world)
    change(world, chunk_name(3), CHUNK_HEADER.offset_of("version"), b"\x09")
    with pytest.raises(UnknownVersion, match=chunk_name(3)):
        Opened(world)


def test_what_stands_behind_the_commit_is_cut_and_does_not_come_back() -> None:
    world = World(8)
    written(world, chunks=2)
    records = stored(world)
    last = reader(world).chunk(1)
    change(world, chunk_name(1), last.end, bytes(last.data[64 : 64 + 800]))
    opened = Opened(world, UNTIMED)
    assert opened.journal.end == Position(1, last.end)
    assert stored(world) == records
    assert not any(reader(world).chunk(1).data[last.end :])


def test_a_torn_header_costs_nothing() -> None:
    world = World(9)
    written(world, chunks=2)
    records = stored(world)
    change(world, chunk_name(1), 0, bytes(64))
    opened = Opened(world, UNTIMED)
    assert stored(world) == records
    position = opened.journal.append(CustomEvent(1, b"x"), segment_id=0, logical_offset=0)
    opened.journal.commit()
    assert position.chunk_index == 1
    assert len(stored(world)) == len(records) + 1
    judged = reader(world).chunk(1)
    assert judged.header is not None
    assert judged.header.base_record + len(judged.records) == len(records) + 1


def test_a_torn_header_of_the_chunk_with_the_snapshot_does_not_change_its_first_number() -> None:
    world = World(10)
    written(world, chunks=2)
    journal = Opened(world, UNTIMED).journal
    journal.take_snapshot()
    journal.append(CustomEvent(1, b"x"), segment_id=0, logical_offset=0)
    journal.commit()
    world.restart(Crash.KILL)
    before = reader(world).chunk(1).header
    change(world, chunk_name(1), 0, bytes(64))
    Opened(world, UNTIMED)
    assert reader(world).chunk(1).header == before


def test_behind_a_snapshot_a_torn_end_costs_only_what_is_torn() -> None:
    world = World(1)
    journal = Opened(world, UNTIMED).journal
    for number in range(8):
        world.clock.advance(MS)
        journal.append(SegmentOpened(number * 10, 1), segment_id=number, logical_offset=number * 10)
        if number == 4:
            journal.take_snapshot()
    journal.commit()
    world.restart(Crash.KILL)
    expected = folded(stored(world)[:-1])
    *_, last = reader(world).records()
    change(world, chunk_name(0), last.position.offset, b"\xff" * 16)
    found = replay(reader(world))
    assert found.snapshot is not None
    assert found.last is not None
    assert found.last.verdict is Verdict.TORN
    assert found.record_count == 3  # the snapshot's marker, and two segments
    assert found.index == expected


def test_new_records_never_take_the_place_of_lost_ones_that_a_snapshot_has() -> None:
    world = World(10)
    written(world, chunks=2)
    opened = Opened(world, UNTIMED)
    opened.journal.take_snapshot()
    opened.journal.commit()
    index = opened.journal.index()
    world.restart(Crash.KILL)
    change(world, chunk_name(1), 2000, b"\xff" * 6000)  # the open chunk, below the snapshot
    again = Opened(world, UNTIMED)
    assert list(again.journal.index().segments()) == list(index.segments())
    position = again.journal.append(CustomEvent(1, b"new"), segment_id=0, logical_offset=0)
    again.journal.commit()
    assert position == Position(2, 64)
    world.restart(Crash.KILL)
    third = Opened(world, UNTIMED)
    assert third.journal.end > position
    assert third.replayed.record_count >= 1


def test_a_cursor_is_bounded() -> None:
    world = World(11)
    written(world, chunks=3)
    placed = list(reader(world).records())
    start, end = placed[10].position, placed[40].position
    assert list(reader(world).records(start, end)) == placed[10:40]
    assert list(reader(world).records(end, end)) == []


def test_strange_files_in_the_folder_are_left_alone() -> None:
    world = World(12)
    written(world, chunks=2)
    for name in ("notes.txt", "1.mlog", "snapshot_1.bin", f"{chunk_name(1)}.bak"):
        world.disk.create(f"{FOLDER}/{name}").close()
    before = stored(world)
    Opened(world)
    assert stored(world) == before
    assert "notes.txt" in world.disk.names(FOLDER)
