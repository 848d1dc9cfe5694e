"""What a consumer group must hold: where each message of a partition stands.

- A message is available, leased, settled by its holder, or a dead letter.
- A lease is given to one holder at a time, with an epoch that never comes again; only its holder
  settles it, and no holder of an earlier topic or group of the same name.
- What was settled is never delivered again, unless a client seeks or resets.

What may or may not have happened (an answer that was lost, a crash) is in doubt: then both are
allowed, until a delivery or the end of the run decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.simulator.violation import Promise, require

VAGUE_NS = 61 * 10**9  # after that a lease that is in doubt has ended
SLACK_NS = 5_000_000  # a call reads the clock a moment earlier or later than the model


class ModelLease(NamedTuple):
    """A message that a client holds."""

    offset: int
    epoch: int
    until_ns: int  # by the monotonic clock
    delivery_count: int


@dataclass
class GroupPartitionModel:
    """One partition of a group."""

    name: str
    settled: set[int] = field(default_factory=set)
    maybe_settled: set[int] = field(default_factory=set)
    leases: dict[int, ModelLease] = field(default_factory=dict)
    maybe_leases: dict[int, ModelLease] = field(default_factory=dict)
    delayed_until_ns: dict[int, int] = field(default_factory=dict)
    deliveries: dict[int, tuple[int, int]] = field(default_factory=dict)  # at least, at most
    settled_ns: dict[int, int] = field(default_factory=dict)
    acked_in_force: set[int] = field(default_factory=set)
    delivery_count_max: int = 0
    buried: set[int] = field(default_factory=set)  # dead letters by now, or maybe
    lost_lease_count: int = 0  # leases that may have been granted without reaching a client
    vague_until_ns: int = 0  # until then unknown leases may hold messages
    epochs: set[int] = field(default_factory=set)
    has_started_over: bool = False
    settled_before_ns: tuple[int, set[int]] = field(  # when it started over, and before that
        default_factory=lambda: (-(1 << 62), set())
    )
    in_flight: int = 0

    def delivered(
        self, offset: int, *, epoch: int, until_ns: int, delivery_count: int, now_ns: int
    ) -> None:
        """A lease was answered with that message."""
        where = f"{self.name}: offset {offset}"
        what = f"{where} was settled, and was delivered again"
        require(offset not in self.settled, Promise.HOLDER, what)
        held = self.leases.get(offset)
        if held is not None:
            what = f"{where} is leased with epoch {held.epoch}, and was leased again with {epoch}"
            require(held.until_ns - SLACK_NS <= now_ns, Promise.LEASE, what)
        delay_ns = self.delayed_until_ns.pop(offset, None)
        if delay_ns is not None:
            what = f"{where} was given back with a delay, and was delivered before that was over"
            require(delay_ns - SLACK_NS <= now_ns, Promise.SCHEDULE, what)
        least, most = self.deliveries.get(offset, (0, 0))
        most += 1 + self.lost_lease_count
        what = f"{where}: delivery {delivery_count}, where {least + 1} to {most} are possible"
        require(least < delivery_count <= most, Promise.ACCOUNTED, what)
        self.deliveries[offset] = (delivery_count, delivery_count)
        self.maybe_leases.pop(offset, None)
        self.maybe_settled.discard(offset)
        self.leases[offset] = ModelLease(offset, epoch, until_ns, delivery_count)

    def is_available(self, offset: int, now_ns: int) -> bool:
        """Whether the message must be delivered to the next lease, beyond doubt."""
        is_open = offset not in self.settled and offset not in self.maybe_settled
        held, doubtful = self.leases.get(offset), self.maybe_leases.get(offset)
        is_free = held is None or held.until_ns + VAGUE_NS < now_ns
        is_surely_free = doubtful is None or doubtful.until_ns + VAGUE_NS < now_ns
        is_time = self.delayed_until_ns.get(offset, 0) + SLACK_NS < now_ns
        is_fresh = self.delivery_count_max == 0 or offset not in self.deliveries
        is_known = self.vague_until_ns < now_ns and offset not in self.buried
        return is_open and is_free and is_surely_free and is_time and is_fresh and is_known

    def epoch_used(self, epoch: int) -> None:
        require(epoch not in self.epochs, Promise.HOLDER, f"{self.name}: epoch {epoch} came again")
        self.epochs.add(epoch)

    def is_certain(self, lease: ModelLease, now_ns: int) -> bool:
        """Whether that lease is in force, beyond doubt."""
        held = self.leases.get(lease.offset)
        return held is not None and held.epoch == lease.epoch and now_ns < held.until_ns - SLACK_NS

    def is_stale(self, lease: ModelLease, *, is_ack: bool) -> bool:
        """Whether another client has the message by now, or settled it, beyond doubt.

        What is settled may be settled again: the answer may have been lost.
        """
        held = self.leases.get(lease.offset)
        if lease.offset in self.maybe_leases or lease.offset in self.maybe_settled:
            return False
        is_settled = lease.offset in self.settled and not is_ack
        is_other = held is not None and held.epoch != lease.epoch
        return is_settled or (is_other and not (is_ack and self.may_be_buried(lease.offset)))

    def may_be_buried(self, offset: int) -> bool:
        """A dead letter is settled."""
        count = max(self.deliveries.get(offset, (0, 0))) + self.lost_lease_count
        return 0 < self.delivery_count_max <= count

    def doubt(self, offsets: list[int]) -> None:
        """A call that changes these is under way: their leases may end any moment."""
        for offset in offsets:
            held = self.leases.pop(offset, None)
            if held is not None:
                self.maybe_leases[offset] = held

    def doubt_all(self) -> None:
        self.doubt(list(self.leases))

    def restored(self, leases: list[ModelLease]) -> None:
        """The call that was under way was refused: they are held as before."""
        for lease in leases:
            held = self.maybe_leases.pop(lease.offset, None)
            if held is not None and lease.offset not in self.leases:
                self.leases[lease.offset] = held

    def acked(self, leases: list[ModelLease], now_ns: int, *, is_certain: bool = True) -> None:
        """`is_certain`: the leases were in force, so these are no dead letters."""
        for lease in leases:
            offset = lease.offset
            if is_certain:
                self.acked_in_force.add(offset)
            self.leases.pop(offset, None)
            self.maybe_leases.pop(offset, None)
            self.maybe_settled.discard(offset)
            self.settled.add(offset)
            self.settled_ns[offset] = now_ns

    def maybe_acked(self, offsets: list[int]) -> list[int]:
        """Those that were not in doubt before."""
        fresh = [at for at in offsets if at not in self.settled and at not in self.maybe_settled]
        self.maybe_settled.update(fresh)
        return fresh

    def not_acked(self, offsets: list[int]) -> None:
        self.maybe_settled.difference_update(offsets)

    def holds(self, lease: ModelLease) -> bool:
        held = self.leases.get(lease.offset)
        return held is not None and held.epoch == lease.epoch

    def given_back(self, leases: list[ModelLease], *, until_ns: int | None) -> None:
        for lease in leases:
            self.leases.pop(lease.offset, None)
            self.maybe_leases.pop(lease.offset, None)
            if until_ns is not None:
                self.delayed_until_ns[lease.offset] = until_ns

    def maybe_uncount(self, offsets: list[int]) -> None:
        """A call that takes deliveries back is under way."""
        for offset in offsets:
            least, most = self.deliveries.get(offset, (0, 0))
            self.deliveries[offset] = (max(0, least - 1), most)

    def uncount(self, offsets: list[int], *, is_durable: bool) -> None:
        """They were given back unseen: that was no delivery."""
        for offset in offsets:
            least, most = self.deliveries.get(offset, (0, 0))
            self.deliveries[offset] = (max(0, least - 1), max(0, most - is_durable))

    def released(self) -> None:
        """No message is leased any more."""
        self.leases.clear()
        self.maybe_leases.clear()

    def doubt_everything(self) -> None:
        """A call that starts over is under way: what was settled may be delivered again."""
        self.doubt_all()
        self.maybe_settled |= self.settled
        self.settled.clear()
        self.has_started_over = True
        self.acked_in_force.clear()
        self._forget_counts()

    def started_over(self, place: int, now_ns: int) -> None:
        """What is before a place is settled, the rest is delivered again."""
        self.released()
        self.settled_before_ns = (now_ns, self.settled | self.maybe_settled)
        self.settled = set(range(place))
        self.maybe_settled.clear()
        self.delayed_until_ns.clear()
        self.buried.clear()
        self.acked_in_force.clear()
        self.has_started_over = True
        self._forget_counts()

    def _forget_counts(self) -> None:
        for offset, (_, most) in list(self.deliveries.items()):
            self.deliveries[offset] = (0, most)

    def lost_power(self, now_ns: int, limit_ns: int) -> None:
        """What was only written, so short a while ago, may be lost: acks and leases."""
        when_ns, before = self.settled_before_ns
        if now_ns - when_ns <= limit_ns:
            self.maybe_settled |= before | self.settled
            self.settled.clear()
        for offset, when in list(self.settled_ns.items()):
            if now_ns - when <= limit_ns and offset in self.settled:
                self.settled.discard(offset)
                self.maybe_settled.add(offset)
        self.doubt_all()
        self._forget_counts()
        self.delayed_until_ns.clear()
        self.vague_until_ns = now_ns + VAGUE_NS

    def reopened(self, now_ns: int, *, is_clock_stepped: bool) -> None:
        """Leases and delays stand; when they end is known less exactly after a clock step."""
        self.in_flight = 0
        if is_clock_stepped:
            self.doubt_all()
            self.delayed_until_ns.clear()
            self.vague_until_ns = now_ns + VAGUE_NS


@dataclass
class GroupModel:
    """One group, from its creation to its deletion."""

    topic: str
    name: str
    partitions: list[GroupPartitionModel]
    delivery_count_max: int = 0
    lease_ms: int = 0
    syncs: bool = True
    sync_ms: int = 0
    per_key_order: bool = False
    is_damaged: bool = False
    maybe_deleted: bool = False
    is_recreated: bool = False
    incarnations: list[int] = field(default_factory=list)  # by partition
    letters: set[tuple[int, int]] = field(default_factory=set)  # partition and offset

    @property
    def in_flight_any(self) -> bool:
        return any(part.in_flight for part in self.partitions)
