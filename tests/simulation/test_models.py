"""The models by themselves: what they allow, and what they call broken."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from lakebed.simulator.model.groups import GroupPartitionModel, ModelLease
from lakebed.simulator.model.logs import LogModel, ModelRecord, RetentionRule, Seen
from lakebed.simulator.model.objects import (
    KeyModel,
    ModelVersion,
    Versions,
    after_delete,
    after_put,
)
from lakebed.simulator.model.topics import (
    Doubt,
    ModelMessage,
    PartitionModel,
    SeenMessage,
    TopicRule,
)
from lakebed.simulator.violation import Promise, Violation

SECOND = 10**9
KEPT = Versions(is_enabled=True)


def broken(promise: Promise) -> AbstractContextManager[object]:
    return pytest.raises(Violation, match=f"^{promise.value}: ")


def log_of(count: int) -> LogModel:
    log = LogModel("alpha", rules=[RetentionRule()])
    log.appended([ModelRecord(64 * n, b"%d" % n, 7, (0, 0)) for n in range(count)])
    return log


def seen_of(*numbers: int) -> list[Seen]:
    return [Seen(64 * n, b"%d" % n, 7) for n in numbers]


def test_flushed_records_must_be_there_and_others_may() -> None:
    log = log_of(4)
    log.flushed(64)
    log.read(seen_of(0, 1, 2), durable_count=log.durable_count)
    log.opened(64 * 3)
    with broken(Promise.KEPT):
        log.read(seen_of(0, 1), durable_count=log.durable_count)


def test_a_record_that_was_not_there_at_an_opening_never_appears() -> None:
    log = log_of(3)
    log.opened(64)
    with broken(Promise.NOT_INVENTED):
        log.read(seen_of(0, 1))


def test_a_gap_in_a_log_and_other_bytes_are_broken_promises() -> None:
    log = log_of(3)
    log.flushed()
    with broken(Promise.KEPT):
        log.read(seen_of(0, 2), durable_count=3)
    with broken(Promise.KEPT):
        log.read([Seen(0, b"other", 7)], is_partial=True)


def test_records_leave_a_log_only_if_retention_is_on() -> None:
    log = log_of(3)
    log.flushed()
    with broken(Promise.REMOVAL):
        log.read(seen_of(1, 2), durable_count=3)
    log.rules = [RetentionRule(count_max=2)]
    log.read(seen_of(1, 2), durable_count=3)


def partition_of(*values: bytes) -> PartitionModel:
    partition = PartitionModel("orders/0")
    doubt = Doubt([ModelMessage(None, value) for value in values])
    partition.doubts.append(doubt)
    partition.acknowledged(doubt, 0, TopicRule(), 0)
    return partition


def messages_of(*values: bytes) -> list[SeenMessage]:
    return [SeenMessage(n, ModelMessage(None, value)) for n, value in enumerate(values)]


def test_an_append_in_doubt_is_there_or_not_and_then_for_good() -> None:
    partition = partition_of(b"a")
    partition.doubts.append(Doubt([ModelMessage(None, b"b")], is_open=False))
    partition.read(messages_of(b"a"), start=0, end=1, rule=TopicRule(), now_ns=0)
    with broken(Promise.NEVER_LATER):
        partition.read(messages_of(b"a", b"b"), start=0, end=2, rule=TopicRule(), now_ns=0)


def test_a_message_that_is_stored_twice_is_a_broken_promise() -> None:
    partition = partition_of(b"a")
    partition.doubts.append(Doubt([ModelMessage(None, b"a")]))
    with broken(Promise.ONCE):
        partition.read(messages_of(b"a", b"a"), start=0, end=2, rule=TopicRule(), now_ns=0)


def test_what_was_only_written_may_be_lost_with_the_power_and_only_from_the_end() -> None:
    partition = partition_of(b"a")
    doubt = Doubt([ModelMessage(None, b"b")])
    partition.doubts.append(doubt)
    partition.acknowledged(doubt, 1, TopicRule(syncs=False), 5 * SECOND)
    partition.lost_power(6 * SECOND, 3 * SECOND)
    partition.read(messages_of(b"a"), start=0, end=1, rule=TopicRule(), now_ns=6 * SECOND)
    with broken(Promise.KEPT):
        partition.read([], start=0, end=1, rule=TopicRule(), now_ns=6 * SECOND)


def test_a_restored_backup_lacks_only_what_retention_takes_from_its_start() -> None:
    partition = partition_of(b"a", b"b", b"c")
    partition.restored({0, 1, 2}, {0, 1, 2}, start=0, rule=TopicRule())
    retained = TopicRule(retention_bytes=1)
    partition.restored({0, 1, 2}, {2}, start=2, rule=retained)
    for found, start, rule in (
        ({1, 2}, 1, TopicRule()),
        ({0, 2}, 0, retained),
        ({1}, 1, retained),
    ):
        with broken(Promise.BACKUP):
            partition.restored({0, 1, 2}, found, start=start, rule=rule)


def group_of() -> GroupPartitionModel:
    part = GroupPartitionModel("billing")
    part.delivered(3, epoch=1, until_ns=10 * SECOND, delivery_count=1, now_ns=0)
    return part


def test_a_message_in_somebodys_hands_is_not_delivered_again() -> None:
    with broken(Promise.LEASE):
        group_of().delivered(3, epoch=2, until_ns=20 * SECOND, delivery_count=2, now_ns=9 * SECOND)
    group_of().delivered(3, epoch=2, until_ns=20 * SECOND, delivery_count=2, now_ns=11 * SECOND)


def test_a_message_that_was_settled_is_not_delivered_again() -> None:
    part = group_of()
    part.acked([ModelLease(3, 1, 10 * SECOND, 1)], SECOND)
    with broken(Promise.HOLDER):
        part.delivered(3, epoch=2, until_ns=20 * SECOND, delivery_count=2, now_ns=11 * SECOND)


def test_an_ack_that_a_power_cut_may_have_lost_is_not_certain() -> None:
    part = group_of()
    part.acked([ModelLease(3, 1, 10 * SECOND, 1)], SECOND)
    part.lost_power(2 * SECOND, 3 * SECOND)
    assert 3 not in part.acked_in_force  # so it may be delivered again, and become a dead letter
    part.delivered(3, epoch=2, until_ns=20 * SECOND, delivery_count=2, now_ns=11 * SECOND)


def test_a_delivery_that_is_counted_twice_is_a_broken_promise() -> None:
    with broken(Promise.ACCOUNTED):
        group_of().delivered(3, epoch=2, until_ns=20 * SECOND, delivery_count=3, now_ns=11 * SECOND)


def test_a_refused_give_back_does_not_undo_the_count_of_a_delivery_in_the_meantime() -> None:
    part = group_of()
    changes = part.maybe_uncount([3])
    assert (changes[3].before, changes[3].after) == ((1, 1), (0, 1))
    part.doubt([3])
    part.delivered(3, epoch=8, until_ns=30 * SECOND, delivery_count=2, now_ns=20 * SECOND)
    assert part.restore_counts(changes) == []
    assert part.deliveries[3] == (2, 2)
    changes = part.maybe_uncount([3])
    assert part.restore_counts(changes) == [3]
    assert part.deliveries[3] == (2, 2)


def test_a_delivery_with_an_epoch_of_before_is_a_broken_promise() -> None:
    part = group_of()
    part.epoch_used(1)
    with broken(Promise.HOLDER):
        part.epoch_used(1)


def test_a_key_may_be_in_either_state_until_it_is_seen() -> None:
    key = KeyModel()
    key.changed(lambda state: after_put(state, ModelVersion("1", b"old"), KEPT))
    key.maybe_changed(lambda state: after_put(state, ModelVersion(None, b"newer"), KEPT))
    assert key.current() == {b"old", b"newer"}
    key.seen([ModelVersion("2", bytes(5)), ModelVersion("1", bytes(3))], "photos/a")
    assert key.current() == {b"newer"}
    with broken(Promise.KEPT):
        key.seen([ModelVersion("1", bytes(3))], "photos/a")


def test_a_version_that_comes_back_is_a_broken_promise() -> None:
    key = KeyModel()
    key.changed(lambda state: after_put(state, ModelVersion("1", b"old"), KEPT))
    key.changed(lambda state: after_delete(state, "2", KEPT))
    with broken(Promise.DELETED):
        key.seen([ModelVersion(str(n), bytes(3)) for n in range(3)], "photos/a")
