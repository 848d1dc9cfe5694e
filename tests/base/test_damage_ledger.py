"""The record of damage: each loss once, durable, bounded, and never read wrong."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable

import pytest

from lakebed.base import damage_ledger
from lakebed.base.damage_ledger import (
    LOGS,
    TOPICS,
    DamageLedger,
    Ledger,
    LedgerCache,
    Loss,
    RecordedDamage,
    decode_ledger,
    encode_ledger,
)
from lakebed.base.errors import Corrupt, NotFound, UnknownVersion
from lakebed.base.files import make_folders, read_file, replace_atomically
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World

OWN_LOSS = "the record of damage was damaged"


@pytest.fixture
def world() -> World:
    world = World(3)
    world.disk.make_folder("/store")
    world.disk.sync_folder("/")
    return world


def ledger_of(world: World) -> DamageLedger:
    return DamageLedger(world.disk, "/store", runner=world.runner)


def loss(number: int, *, name: str = "orders") -> Loss:
    return Loss(
        engine=TOPICS,
        name=name,
        partition=0,
        path=f"/store/topics/{name}/0/segments/{number}.log",
        start=number,
        end=number + 10,
        first_offset=number,
        next_offset=number + 2,
        problem="bad",
        saved=("/store/quarantine/x.bin",),
    )


def test_a_loss_is_recorded_once_below_the_root_and_survives_a_power_cut(world: World) -> None:
    ledger = ledger_of(world)
    assert ledger.list() == []
    ledger.record(loss(7), loss(9), loss(7))
    ledger.record(loss(9))
    world.restart(Crash.POWER)
    ledger = ledger_of(world)
    ledger.record(loss(7))
    first, second = ledger.list()
    assert (first.id, second.id) == (1, 2)
    assert (first.path, first.saved) == ("topics/orders/0/segments/7.log", ("quarantine/x.bin",))
    assert RecordedDamage(world.disk, "/store").list() == [first, second]


def test_what_is_acknowledged_stays_on_record_and_is_not_found_again(world: World) -> None:
    ledger = ledger_of(world)
    ledger.record(loss(7), loss(9))
    acknowledged = ledger.acknowledge(1)
    assert acknowledged.acknowledged_ms is not None
    assert ledger.acknowledge(1) == acknowledged
    assert ledger.unacknowledged_count == 1
    ledger.record(loss(7))
    assert [one.id for one in ledger.ledger().unacknowledged] == [2]
    assert [one.id for one in ledger.ledger().lost_offsets("orders", 0)] == [2]
    assert ledger.ledger().lost_offsets("orders", 1) == ()
    with pytest.raises(NotFound):
        ledger.acknowledge(3)


def test_what_was_deleted_is_forgotten(world: World) -> None:
    ledger = ledger_of(world)
    ledger.record(loss(7), loss(7, name="others"), Loss(engine=LOGS, name="orders", problem="bad"))
    ledger.forget(TOPICS, "orders")
    assert [one.id for one in ledger_of(world).list()] == [2, 3]


def test_the_record_is_bounded_and_counts_what_it_has_no_room_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage_ledger, "RECORDS_MAX", 3)
    ledger = ledger_of(world)
    ledger.record(*map(loss, range(3)))
    ledger.acknowledge(2)
    ledger.record(loss(3))
    assert [one.id for one in ledger.list()] == [1, 3, 4]
    ledger.record(loss(4), loss(5))
    assert (ledger.ledger().forgotten_count, ledger.unacknowledged_count) == (2, 5)
    for number in (1, 3):
        ledger.acknowledge(number)
    assert ledger_of(world).unacknowledged_count == 3
    ledger.acknowledge(4)
    assert ledger_of(world).unacknowledged_count == 0


def test_any_changed_byte_is_noticed(world: World) -> None:
    ledger = ledger_of(world)
    ledger.record(loss(7))
    data = encode_ledger(ledger.ledger())
    assert decode_ledger(data, path="x") == ledger.ledger()
    document = json.loads(data)
    document["records"][0]["next_offset"] = 8
    with pytest.raises(Corrupt):
        decode_ledger(json.dumps(document).encode(), path="x")
    for hostile in (b"", b"[1]", b"\xff", b"[" * 10_000, data[:-20]):
        with pytest.raises(Corrupt):
            decode_ledger(hostile, path="x")
    with pytest.raises(UnknownVersion):
        decode_ledger(json.dumps({**document, "version": 2}).encode(), path="x")


def test_a_damaged_record_is_kept_when_it_begins_anew(world: World) -> None:
    replace_atomically(world.disk, "/store/damage.json", b"{")
    ledger = ledger_of(world)
    assert [one.problem for one in ledger.list()] == ["the record of damage was damaged"]
    [name] = world.disk.names("/store/quarantine")
    assert read_file(world.disk, f"/store/quarantine/{name}", size_max=10) == b"{"
    assert RecordedDamage(world.disk, "/nowhere").ledger() == Ledger()


def test_the_damage_of_the_record_itself_is_recorded_once_the_disk_takes_writes_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    replace_atomically(world.disk, "/store/damage.json", b"{")
    world.disk.faults.lasting["create"] = errno.ENOSPC
    ledger = ledger_of(world)
    own, later = "the record of damage was damaged", "bad"
    assert [one.problem for one in ledger.list()] == [own]
    world.disk.faults.lasting.clear()
    ledger.record(loss(7))
    assert [one.problem for one in ledger.list()] == [own, later]
    assert [one.problem for one in ledger_of(world).list()] == [own, later]
    logged = [message for message in caplog.messages if message.startswith("damage_recorded")]
    assert len(logged) == 2
    [name] = world.disk.names("/store/quarantine")
    assert read_file(world.disk, f"/store/quarantine/{name}", size_max=10) == b"{"


def too_large(world: World) -> None:
    world.disk.place("/store/damage.json", b"{" * 100)


def unreadable(world: World) -> None:
    world.disk.place("/store/damage.json", b"{")
    world.disk.faults.unreadable.add("/store/damage.json")


@pytest.mark.parametrize("spoil", [too_large, unreadable])
def test_a_ledger_that_is_too_large_or_unreadable_is_moved_to_the_quarantine(
    world: World, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[World], None]
) -> None:
    spoil(world)
    content = world.disk.content_of("/store/damage.json")
    with monkeypatch.context() as patch:
        patch.setattr(damage_ledger, "_BYTES_MAX", 99)
        with pytest.raises(Corrupt):
            RecordedDamage(world.disk, "/store").ledger()
        assert LedgerCache(world.disk, "/store").lost_offsets("orders", 0) == ()
        ledger = ledger_of(world)
    ledger.record(loss(7))
    assert [record.problem for record in ledger.list()] == [OWN_LOSS, "bad"]
    [name] = world.disk.names("/store/quarantine")
    assert world.disk.content_of(f"/store/quarantine/{name}") == content
    world.disk.faults.unreadable.clear()
    assert RecordedDamage(world.disk, "/store").list() == ledger.list()


def test_each_damaged_ledger_is_kept(world: World) -> None:
    for content in (b"{", b"["):
        world.disk.place("/store/damage.json", content)
        assert [record.problem for record in ledger_of(world).list()] == [OWN_LOSS]
    saved = [f"/store/quarantine/{name}" for name in world.disk.names("/store/quarantine")]
    assert list(map(world.disk.content_of, saved)) == [b"{", b"["]


class DamagedLedger:
    """Opens a damaged ledger: it is kept, and its loss is on record, whenever the crash comes."""

    def run(self, world: World) -> None:
        make_folders(world.disk, "/store")
        world.disk.place("/store/damage.json", b"{")
        ledger_of(world)

    def check(self, world: World) -> None:
        if not any(path.startswith("/store/") for path in world.disk.file_paths()):
            return
        assert [record.problem for record in ledger_of(world).list()] == [OWN_LOSS]
        assert b"{" in map(world.disk.content_of, world.disk.file_paths())


def test_a_crash_does_not_lose_a_damaged_ledger() -> None:
    assert sweep(DamagedLedger, seeds=range(2), survivors=range(6)) > 50
