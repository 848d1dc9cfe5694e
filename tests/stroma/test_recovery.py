"""Opening a group's files in whatever state they are."""

from __future__ import annotations

import contextlib

import pytest

from lakebed.base.errors import Corrupt, SyncFailed, Torn, UnknownVersion
from lakebed.base.files import make_folders, read_file, replace_atomically
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.world import World
from lakebed.base.units import GIB
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.delta import DeltaWalk, Verdict, decode_header, encode_header
from lakebed.stroma.events import Acks, Event, Returns, encode, frame
from lakebed.stroma.format import (
    EVENTS_START,
    Ack,
    FoldMark,
    MarkInflight,
    Nack,
    ReserveEpochs,
    ReturnRange,
    Seek,
)
from lakebed.stroma.group_opener import clean_folder
from lakebed.stroma.message_status import StatusKind
from lakebed.stroma.recovery import load, start_over
from lakebed.stroma.snapshot import Snapshot, decode_snapshot, encode_snapshot
from tests.fakes.stroma_source import FakeSource
from tests.stroma.groups import NAME, PATHS, ROOT, Opened, lease_all, offsets
from tests.stroma.samples import EVENTS, SNAPSHOT, T, delta_bytes, flagged_event

CONFIG = GroupConfig()
NOW_MS = T + 100
ACKS = [Ack(number) for number in range(0, 10, 2)]
QUARANTINE = f"{ROOT}/quarantine"


@pytest.fixture
def world() -> World:
    return World(0)


def write(world: World, *, snapshot: bytes | None = None, delta: bytes | None = None) -> None:
    make_folders(world.disk, PATHS.folder)
    for path, data in ((PATHS.snapshot, snapshot), (PATHS.delta, delta)):
        if data is not None:
            replace_atomically(world.disk, path, data)


def content(world: World, path: str) -> bytes:
    return read_file(world.disk, path, size_max=GIB)


def acked(world: World) -> list[int]:
    """What the group is not about to deliver, of twenty messages."""
    opened = Opened(world, FakeSource(20), CONFIG)
    found = lease_all(opened.group)
    opened.close()
    return [offset for offset in range(20) if offset not in found]


def test_every_event_is_replayed(world: World) -> None:
    write(world, delta=delta_bytes())
    recovered = load(world.disk, PATHS, CONFIG, now_ms=NOW_MS)
    state = recovered.state
    found = {
        offset: (status.kind, status.deliveries, status.time_ms, status.epoch)
        for start, end, status in state.runs
        for offset in range(start, end)
    }
    settled, fresh = (StatusKind.SETTLED, 0, 0, 0), (StatusKind.FRESH, 0, 0, 0)
    leased = (StatusKind.LEASED, 1, T + 60_000, 2)
    assert state.base == 5
    assert found == {
        5: (StatusKind.AVAILABLE, 1, 0, 0),
        6: (StatusKind.WAITING, 1, T + 5000, 0),
        7: settled,
        8: (StatusKind.AVAILABLE, 1, 0, 0),
        **dict.fromkeys(range(9, 12), settled),
        12: (StatusKind.AVAILABLE, 1, 0, 0),
        13: leased,
        14: settled,
        **dict.fromkeys(range(15, 17), (StatusKind.WAITING, 1, T + 7000, 0)),
        **dict.fromkeys(range(17, 20), leased),
        **dict.fromkeys(range(20, 30), fresh),
        30: settled,
    }
    assert (state.in_flight, state.settled_ahead, state.epoch) == (4, 6, 65_536)
    assert (recovered.unknown_count, recovered.problems) == (1, [])


def test_unknown_events_and_flags_are_shown(world: World) -> None:
    write(world, delta=delta_bytes() + flagged_event())
    described = Opened(world, FakeSource(40), CONFIG).group.describe()
    assert (described.unknown_events, described.flagged_events) == (1, 1)


def test_an_event_with_an_invalid_payload_is_damaged_with_its_header_and_checksum(
    world: World,
) -> None:
    before, event = delta_bytes([Ack(0)]), frame(2, bytes(9))
    write(world, delta=before + event + encode([Ack(1)])[0])
    recovered = load(world.disk, PATHS, CONFIG, now_ms=NOW_MS)
    assert [damage[:2] for damage in recovered.damages] == [(len(before), len(before) + len(event))]
    assert recovered.state.base == 2


def test_a_damaged_delta_is_saved_durably_before_it_is_replaced(world: World) -> None:
    bad = delta_bytes([Ack(0)]) + b"?" + encode([Ack(1)])[0]
    write(world, delta=bad)
    probe = world.copy()
    Opened(probe, FakeSource(20), CONFIG)
    for step in range(probe.disk.steps - world.disk.steps):
        twin = world.copy()
        twin.disk.faults.crash_at_step = twin.disk.steps + step
        with contextlib.suppress(SimulatedCrash):
            Opened(twin, FakeSource(20), CONFIG)
        twin.restart(Crash.KILL)
        Opened(twin, FakeSource(20), CONFIG)
        twin.restart(Crash.POWER)
        [name] = [name for name in twin.disk.names(QUARANTINE) if not name.endswith(".tmp")]
        assert content(twin, f"{QUARANTINE}/{name}") == bad


def test_an_unrecorded_lease_of_the_same_epoch_is_an_extension(world: World) -> None:
    marks = [MarkInflight(0, T + 1000, 4), MarkInflight(0, T + 2000, 4), MarkInflight(0, T + 9, 5)]
    for count, deliveries in ((1, 1), (2, 1), (3, 2)):
        write(world, delta=delta_bytes([*marks[:count]]))
        state = load(world.disk, PATHS, CONFIG, now_ms=T).state
        run = state.runs.first()
        assert run is not None
        assert run[2].deliveries == deliveries


def test_a_delta_goes_on_from_its_snapshot(world: World) -> None:
    delta = delta_bytes([Ack(100), Ack(103)], generation=4)
    write(world, snapshot=encode_snapshot(SNAPSHOT, NAME), delta=delta)
    state = load(world.disk, PATHS, CONFIG, now_ms=NOW_MS).state
    assert (state.base, state.in_flight) == (104, 2)


def test_a_delta_older_than_its_snapshot_is_ignored(world: World) -> None:
    snapshot = Snapshot(generation=5, acked_until=3)
    write(world, snapshot=encode_snapshot(snapshot, NAME), delta=delta_bytes([Seek(0)]))
    assert acked(world) == [0, 1, 2]
    assert decode_header(memoryview(content(world, PATHS.delta))).generation == 5


def test_an_older_delta_counts_from_the_mark_of_its_snapshot_on(world: World) -> None:
    """The snapshot was in place, and the process died before the new delta was."""
    snapshot = Snapshot(generation=3, acked_until=3)
    events: list[Event] = [Seek(0), FoldMark(2), Ack(7), FoldMark(3), Ack(9), FoldMark(4), Ack(11)]
    write(world, snapshot=encode_snapshot(snapshot, NAME), delta=delta_bytes(events))
    assert acked(world) == [0, 1, 2, 9, 11]
    # A generation that a fold was begun for is never used for another one.
    assert decode_header(memoryview(content(world, PATHS.delta))).generation == 5


def test_marks_of_folds_that_were_never_finished_change_nothing(world: World) -> None:
    events: list[Event] = [Ack(1), FoldMark(2), Ack(3), FoldMark(3), Ack(5)]
    write(world, delta=delta_bytes(events))
    assert acked(world) == [1, 3, 5]
    opened = Opened(world, FakeSource(20), CONFIG)
    opened.group.compact()
    assert opened.group.describe().generation == 4


def test_a_delta_whose_snapshot_is_missing_is_refused(world: World) -> None:
    write(world, delta=delta_bytes(ACKS, generation=2))
    with pytest.raises(Corrupt, match="delta log continues a newer snapshot, which is missing"):
        Opened(world)
    write(world, snapshot=encode_snapshot(Snapshot(generation=1), NAME))
    with pytest.raises(Corrupt, match="expected 1, found 2"):
        Opened(world)


def test_a_group_whose_delta_is_missing_continues_from_its_snapshot_and_says_so(
    world: World,
) -> None:
    write(world, snapshot=encode_snapshot(Snapshot(generation=3, acked_until=4), NAME))
    opened = Opened(world, FakeSource(20), CONFIG)
    problem = f"{PATHS.delta}: the delta log of generation 3 is missing"
    assert opened.group.describe().problems == (problem,)
    opened.close()
    assert acked(world) == [0, 1, 2, 3]
    opened = Opened(world, FakeSource(20), CONFIG)
    assert opened.group.describe().problems == ()


def test_a_torn_tail_is_cut_at_every_place_and_the_cut_is_durable(world: World) -> None:
    whole = delta_bytes(ACKS)
    last = len(whole) - len(encode(ACKS[-1:])[0])
    for size in range(last, len(whole)):
        write(world, delta=whole[:size])
        assert acked(world) == [0, 2, 4, 6]
        data = content(world, PATHS.delta)
        walk = DeltaWalk(memoryview(data))
        list(walk)
        assert walk.verdict is Verdict.WHOLE
        assert not any(data[walk.end :])
    assert not world.disk.exists(QUARANTINE)


def test_opening_cuts_a_torn_tail_before_anything_is_appended(world: World) -> None:
    whole = delta_bytes(ACKS)
    write(world, delta=whole + b"garbage" * 40)
    Opened(world, FakeSource(20), CONFIG).close()
    assert content(world, PATHS.delta)[EVENTS_START:] == whole[EVENTS_START:]
    write(world, delta=whole[: EVENTS_START + 5])
    Opened(world, FakeSource(20), CONFIG).close()
    assert content(world, PATHS.delta)[EVENTS_START:] == b""
    assert not world.disk.exists(QUARANTINE)


def test_what_opening_served_was_made_durable_even_if_a_sync_of_it_had_failed(
    world: World,
) -> None:
    opened = Opened(world, FakeSource(10), CONFIG)
    grant = opened.group.lease(10)
    world.disk.faults.fail("fdatasync", after=AfterFailedSync.KEPT)
    with pytest.raises(SyncFailed):
        opened.group.ack([(0, 4)], epoch=grant.epoch)
    world.restart(Crash.KILL)
    opened = Opened(world, opened.source, CONFIG)
    served = opened.group.lag()
    opened.close()
    world.restart(Crash.POWER)
    assert Opened(world, opened.source, CONFIG).group.lag() == served == 6


def test_what_is_appended_behind_a_cut_is_found_again(world: World) -> None:
    write(world, delta=delta_bytes(ACKS)[:-3] + b"garbage" * 40)
    opened = Opened(world, FakeSource(20), CONFIG)
    grant = opened.group.lease(20)
    opened.group.ack(grant.ranges, epoch=grant.epoch)
    opened.close()
    assert acked(world) == list(range(20))


def test_damage_in_the_middle_is_told_saved_and_read_around(world: World) -> None:
    data = bytearray(delta_bytes(ACKS))
    event_bytes = len(encode(ACKS[:1])[0])
    data[EVENTS_START + 2 * event_bytes + 14] ^= 1
    write(world, delta=bytes(data))
    opened = Opened(world, FakeSource(20), CONFIG)
    (problem,) = opened.group.describe().problems
    assert f"{PATHS.delta}: at byte {EVENTS_START + 2 * event_bytes}" in problem
    opened.close()
    assert acked(world) == [0, 2, 6, 8]
    (name,) = world.disk.names(QUARANTINE)
    assert content(world, f"{QUARANTINE}/{name}") == bytes(data)
    assert decode_snapshot(content(world, PATHS.snapshot), NAME).generation == 2


def test_damage_leaps_over_the_epochs_that_may_have_been_among_it(world: World) -> None:
    events = encode([ReserveEpochs(70_000), MarkInflight(3, T, 50), Ack(9)])
    write(world, delta=delta_bytes([]) + bytes(len(events[0])) + events[1] + events[2])
    opened = Opened(world, FakeSource(20), CONFIG)
    assert opened.group.lease(1).epoch > 70_000


def test_an_event_that_no_writer_writes_is_damage(world: World) -> None:
    write(world, delta=delta_bytes([Ack(0)]) + frame(2, bytes(9)) + encode([Ack(1)])[0])
    assert acked(world) == [0, 1]
    assert len(world.disk.names(QUARANTINE)) == 1


@pytest.mark.parametrize("size", [0, 1, 59])
def test_a_delta_without_a_whole_header_is_told_and_begun_anew(world: World, size: int) -> None:
    header = encode_header(generation=3, created_ts_ms=T)
    snapshot = encode_snapshot(Snapshot(generation=3, acked_until=2), NAME)
    write(world, snapshot=snapshot, delta=header[:size])
    opened = Opened(world, FakeSource(20), CONFIG)
    assert "header is cut short" in opened.group.describe().problems[0]
    opened.close()
    assert acked(world) == [0, 1]


def test_a_damaged_header_is_refused_and_nothing_is_changed(world: World) -> None:
    data = bytearray(delta_bytes(ACKS))
    data[20] ^= 1
    write(world, delta=bytes(data))
    with pytest.raises(Corrupt, match=r"delta: at byte 0: the checksum of the delta log's header"):
        Opened(world)
    assert content(world, PATHS.delta) == bytes(data)


@pytest.mark.parametrize("error", [Torn, Corrupt])
def test_a_damaged_snapshot_is_refused_until_somebody_starts_over(
    world: World, error: type[Exception]
) -> None:
    snapshot = bytearray(encode_snapshot(Snapshot(generation=3, acked_until=7), NAME))
    if error is Torn:
        del snapshot[-3:]
    else:
        snapshot[80] ^= 1
    delta = delta_bytes(ACKS, generation=3)
    write(world, snapshot=bytes(snapshot), delta=delta)
    with pytest.raises(error, match=r"billing\.snap: at byte"):
        Opened(world)
    assert content(world, PATHS.snapshot) == bytes(snapshot)
    told = start_over(world.disk, PATHS)
    assert "starts over at the beginning of the log" in told[-1]
    saved = {content(world, f"{QUARANTINE}/{name}") for name in world.disk.names(QUARANTINE)}
    assert saved == {bytes(snapshot), delta}
    assert acked(world) == []


def test_files_of_a_newer_version_are_refused_and_left_alone(world: World) -> None:
    write(world, delta=delta_bytes(ACKS) + frame(2, bytes(8), version=3))
    with pytest.raises(UnknownVersion):
        Opened(world)
    write(world, snapshot=encode_snapshot(SNAPSHOT, NAME, version=9))
    with pytest.raises(UnknownVersion):
        Opened(world)


def test_hostile_offsets_cost_nothing(world: World) -> None:
    far = 2**64 - 2
    events: list[Event] = [
        Ack(far),
        Acks([(far - 9, far - 5)]),
        MarkInflight(far - 20, T, 1),
        Seek(0),
        Ack(5),
    ]
    write(world, delta=delta_bytes(EVENTS + events[:3]))
    state = load(world.disk, PATHS, CONFIG, now_ms=NOW_MS).state
    assert state.end == far + 1
    opened = Opened(world, FakeSource(10), CONFIG)
    assert "not in the log" in opened.group.describe().problems[0]
    assert set(lease_all(opened.group)) <= set(range(10))
    write(world, delta=delta_bytes(EVENTS + events, generation=2))
    opened = Opened(world, FakeSource(10), CONFIG)
    assert offsets(opened.group.lease(9)) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_leftovers_of_crashes_are_removed(world: World) -> None:
    assert clean_folder(world.disk, ROOT) == []
    write(world, delta=delta_bytes([]))
    world.disk.create(f"{PATHS.snapshot}.7.tmp").close()
    assert clean_folder(world.disk, ROOT) == [f"{PATHS.stem}.snap.7.tmp"]
    assert world.disk.exists(PATHS.delta)


def test_only_the_lease_that_gave_a_message_back_has_ended(world: World) -> None:
    marks: list[Event] = [MarkInflight(0, T + 1000, 4), MarkInflight(0, T + 1000, 5)]
    for back in (Nack(0, 4), Returns([ReturnRange(0, 1, 0, 4, 0)])):
        write(world, delta=delta_bytes([*marks, back]))
        assert load(world.disk, PATHS, CONFIG, now_ms=T).state.in_flight == 1
    write(world, delta=delta_bytes([*marks, Nack(0, 5)]))
    assert load(world.disk, PATHS, CONFIG, now_ms=T).state.in_flight == 0


def incarnations(world: World) -> list[int]:
    """Of the files there are, the snapshot's first."""
    found = []
    if world.disk.exists(PATHS.snapshot):
        found.append(decode_snapshot(content(world, PATHS.snapshot), NAME).incarnation)
    return [*found, decode_header(memoryview(content(world, PATHS.delta))).incarnation]


def test_an_incarnation_lasts_through_folds_and_openings(world: World) -> None:
    opened = Opened(world, FakeSource(20), CONFIG)
    given = opened.group.incarnation
    assert given != 0
    assert incarnations(world) == [given]
    opened.group.compact()
    assert incarnations(world) == [given, given]
    opened.close()
    assert Opened(world, FakeSource(20), CONFIG).group.incarnation == given


def test_a_group_older_than_incarnations_is_given_one_for_good(world: World) -> None:
    delta = delta_bytes([Ack(100), Ack(103)], generation=4)
    write(world, snapshot=encode_snapshot(SNAPSHOT, NAME), delta=delta)
    source = FakeSource(200)
    opened = Opened(world, source, CONFIG)
    given = opened.group.incarnation
    assert given != 0
    assert incarnations(world) == [0, given]
    opened.close()
    opened = Opened(world, source, CONFIG)
    assert opened.group.incarnation == given
    opened.group.compact()
    assert incarnations(world) == [given, given]


@pytest.mark.parametrize("delta", [b"", None])
def test_another_incarnation_is_given_when_epochs_may_come_again(
    world: World, delta: bytes | None
) -> None:
    """Without the delta, or its header, it is lost which epochs were handed out."""
    snapshot = encode_snapshot(Snapshot(generation=3, incarnation=7, acked_until=2), NAME)
    write(world, snapshot=snapshot, delta=delta)
    opened = Opened(world, FakeSource(20), CONFIG)
    given = opened.group.incarnation
    assert given not in (0, 7)
    opened.close()
    assert Opened(world, FakeSource(20), CONFIG).group.incarnation == given


def test_a_delta_of_another_incarnation_is_refused(world: World) -> None:
    snapshot = encode_snapshot(Snapshot(generation=3, incarnation=7, acked_until=2), NAME)
    delta = encode_header(generation=3, created_ts_ms=T, incarnation=8)
    write(world, snapshot=snapshot, delta=delta)
    with pytest.raises(Corrupt, match="a different group with the same name"):
        Opened(world, FakeSource(20), CONFIG)
