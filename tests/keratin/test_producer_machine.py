"""Producers that retry, lose answers, restart and are fenced, over crashes: one copy of each.

Each producer sends numbered messages, and sends again what was not acknowledged before it sends
anything else. The model is what each of them has sent and was told; the log is looked at after
every crash, and at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakebed.base.errors import InputError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.keratin.config import Ack
from lakebed.keratin.errors import OutOfOrderSequence, ProducerFenced
from lakebed.keratin.headers import SEQUENCE_COUNT, Producer
from lakebed.keratin.record_batch import build
from tests.keratin.partitions import messages, opened

ACKS = st.sampled_from([Ack.AFTER_FSYNC, Ack.AFTER_WRITE])
PRODUCER_IDS = (7, 8)


class Sent(NamedTuple):
    """An append that was not acknowledged as durable yet."""

    sequence: int  # not wrapped
    values: tuple[bytes, ...]
    is_batch: bool


class Client:
    """One producer, as it sees itself."""

    def __init__(self, producer_id: int, first: int) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.first = self.next = first  # sequences, not wrapped
        self.pending: list[Sent] = []  # in order; may or may not be there
        self.confirmed: list[bytes] = []  # durable, in order
        self.number = 0

    def producer(self, sequence: int) -> Producer:
        return Producer(self.producer_id, self.epoch, sequence % SEQUENCE_COUNT)

    def make(self, count: int, *, is_batch: bool) -> Sent:
        values = tuple(b"%d:%d" % (self.producer_id, self.number + index) for index in range(count))
        self.number += count
        sent = Sent(self.next, values, is_batch)
        self.next += count
        self.pending.append(sent)
        return sent


class ProducerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(11)
        self.partition = opened(self.world)
        self.clients: dict[int, Client] = {}
        self.draws = 0

    @initialize(
        starts=st.tuples(
            st.sampled_from([0, SEQUENCE_COUNT - 3]), st.sampled_from([0, SEQUENCE_COUNT - 20])
        )
    )
    def begin(self, starts: tuple[int, int]) -> None:
        for producer_id, first in zip(PRODUCER_IDS, starts, strict=True):
            self.clients[producer_id] = Client(producer_id, first)

    # What producers do.

    @rule(
        producer_id=st.sampled_from(PRODUCER_IDS),
        count=st.integers(1, 6),
        is_batch=st.booleans(),
        ack=ACKS,
        is_heard=st.booleans(),
    )
    def send(self, producer_id: int, count: int, is_batch: bool, ack: Ack, is_heard: bool) -> None:
        """Its answer may be lost on its way back."""
        client = self.clients[producer_id]
        if len(client.pending) >= 3:
            return
        self.submit(client, client.make(count, is_batch=is_batch), ack)
        if is_heard and ack is Ack.AFTER_FSYNC:
            self.confirm(client)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), ack=ACKS)
    def send_again(self, producer_id: int, ack: Ack) -> None:
        """All that it does not know of, in order."""
        client = self.clients[producer_id]
        for sent in client.pending:
            self.submit(client, sent, ack)
        if client.pending and ack is Ack.AFTER_FSYNC:
            self.confirm(client)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS))
    def send_again_what_is_known(self, producer_id: int) -> None:
        """Only the last one, all of which is there since it was acknowledged somehow."""
        client = self.clients[producer_id]
        before = self.partition.high_watermark()
        if client.pending:
            self.submit(client, client.pending[-1], Ack.AFTER_FSYNC)
            again = self.submit(client, client.pending[-1], Ack.AFTER_FSYNC)
            assert again >= 0
        assert self.partition.high_watermark() >= before

    @rule(producer_id=st.sampled_from(PRODUCER_IDS))
    def leave_a_gap(self, producer_id: int) -> None:
        client = self.clients[producer_id]
        if client.next == client.first:
            return
        with pytest.raises(OutOfOrderSequence):
            self.partition.append_batch(
                [b"gap"], producer=client.producer(client.next + 1)
            ).result()

    @precondition(lambda self: any(client.number for client in self.clients.values()))
    @rule(producer_id=st.sampled_from(PRODUCER_IDS))
    def take_over(self, producer_id: int) -> None:
        """A new one with its id: begins at zero, once the old one's messages are settled."""
        client = self.clients[producer_id]
        self.send_again(producer_id, Ack.AFTER_FSYNC)
        old = client.producer(client.next)
        client.epoch += 1
        client.first = client.next = 0
        self.submit(client, client.make(1, is_batch=False), Ack.AFTER_FSYNC)
        self.confirm(client)
        with pytest.raises(ProducerFenced):
            self.partition.append_batch([b"fenced"], producer=old).result()

    @rule(count=st.integers(1, 3))
    def somebody_else_writes(self, count: int) -> None:
        self.partition.append_batch([b"other"] * count).result()

    # What happens to the partition.

    @rule()
    def seal(self) -> None:
        self.partition.seal()

    @rule()
    def reopen(self) -> None:
        self.partition.close()
        self.partition = opened(self.world)

    @rule(crash=st.sampled_from(Crash), survivors=st.integers(0, 5))
    def crash(self, crash: Crash, survivors: int) -> None:
        self.world.restart(crash, survivors=survivors)
        self.partition = opened(self.world)
        assert not self.partition.problems
        self.settle_all()

    def settle_all(self) -> None:
        """As producers do that lost their connection."""
        for producer_id in PRODUCER_IDS:
            self.send_again(producer_id, Ack.AFTER_FSYNC)

    @invariant()
    def one_copy_of_each_in_order(self) -> None:
        found = [message.value or b"" for message in messages(self.partition)]
        for producer_id, client in self.clients.items():
            mine = [value for value in found if value.startswith(b"%d:" % producer_id)]
            sent = [value for one in client.pending for value in one.values]
            expected = client.confirmed + sent
            assert mine == expected[: len(mine)], "not one copy of each, in order"
            assert len(mine) >= len(client.confirmed), "an acknowledged message is lost"

    def submit(self, client: Client, sent: Sent, ack: Ack) -> int:
        producer = client.producer(sent.sequence)
        if sent.is_batch:
            batch = build(sent.values, timestamps_ms=5, producer=producer)
            future = self.partition.append_record_batch(batch, ack=ack)
        else:
            future = self.partition.append_batch(sent.values, producer=producer, ack=ack)
        base, count = future.result()
        assert count == len(sent.values)
        return base

    def confirm(self, client: Client) -> None:
        """A sync covers all that came before it."""
        for sent in client.pending:
            client.confirmed += sent.values
        client.pending = []

    def teardown(self) -> None:
        self.settle_all()
        self.one_copy_of_each_in_order()
        self.partition.close()


ProducerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestProducers = pytest.mark.sweep(ProducerMachine.TestCase)


def test_a_retry_of_what_survived_in_part_is_completed_and_recognised() -> None:
    """The power goes while an append is half on the disk; others write before it is sent again."""
    partial = 0
    for seed in range(40):
        world = World(seed)
        partition = opened(world)
        values = [b"%d " % number * 100 for number in range(12)]
        producer = Producer(7, 0, SEQUENCE_COUNT - 5)
        partition.append_batch(values, producer=producer, ack=Ack.AFTER_WRITE).result()
        world.restart(Crash.POWER, survivors=2 + seed % 4)
        partition = opened(world)
        survived = partition.high_watermark()
        partial += 0 < survived < len(values)
        partition.append_batch([b"other"]).result()
        for _ in range(3):
            base, count = partition.append_batch(values, producer=producer).result()
            assert (base, count) == (0 if survived else 1, 12)
        partition.close()
        partition = opened(world)
        partition.append_batch(values, producer=producer).result()
        found = [message.value for message in messages(partition)]
        assert found == [*values[:survived], b"other", *values[survived:]]
        with pytest.raises(InputError):
            partition.append_batch(values, producer=producer._replace(sequence=50)).result()
        partition.close()
    assert partial > 5, "some survived in part"
