"""What a consumer group must hold: where each message of a partition stands.

- A message is available, leased, settled by its holder, or a dead letter.
- A lease is given to one holder at a time, with an epoch that never comes again; only its holder
  settles it, and no holder of an earlier topic or group of the same name.
- What was settled is never delivered again, unless somebody seeks or resets.

What may or may not have happened (an answer that was lost, a crash) is in doubt: then both are
allowed, until a delivery or the end of the run decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.simulator.violation import Promise, require

SLACK_NS = 5_000_000  # a call reads the clock a moment earlier or later than the model


class ModelLease(NamedTuple):
    """A message in somebody's hands."""

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
    last_epoch: int = 0
    settled_ns: dict[int, int] = field(default_factory=dict)
    buried: set[int] = field(default_factory=set)  # dead letters by now, or maybe
    is_vague: bool = False  # a clock step and a restart: when leases end is not known exactly
    in_flight: int = 0

    def delivered(
        self, offset: int, *, epoch: int, until_ns: int, delivery_count: int, now_ns: int
    ) -> None:
        """A lease was answered with that message."""
        where = f"{self.name}: offset {offset}"
        what = f"{where} was settled, and was delivered again"
        require(offset not in self.settled, Promise.HOLDER, what)
        held = self.leases.get(offset)
        if held is not None and not self.is_vague:
            what = f"{where} is leased with epoch {held.epoch}, and was leased again with {epoch}"
            require(held.until_ns - SLACK_NS <= now_ns, Promise.LEASE, what)
        delay_ns = self.delayed_until_ns.pop(offset, None)
        if delay_ns is not None and not self.is_vague:
            what = f"{where} was given back with a delay, and was delivered before that was over"
            require(delay_ns - SLACK_NS <= now_ns, Promise.SCHEDULE, what)
        least, most = self.deliveries.get(offset, (0, 0))
        what = f"{where}: delivery {delivery_count}, where {least + 1} to {most + 1} are possible"
        require(least < delivery_count <= most + 1, Promise.ACCOUNTED, what)
        self.deliveries[offset] = (delivery_count, delivery_count)
        self.maybe_leases.pop(offset, None)
        self.maybe_settled.discard(offset)
        self.leases[offset] = ModelLease(offset, epoch, until_ns, delivery_count)

    def epoch_used(self, epoch: int) -> None:
        what = f"{self.name}: epoch {epoch} came again, after {self.last_epoch}"
        require(epoch > self.last_epoch or self.in_flight > 1, Promise.HOLDER, what)
        self.last_epoch = max(self.last_epoch, epoch)

    def is_certain(self, lease: ModelLease, now_ns: int) -> bool:
        """Whether that lease is in force, beyond doubt."""
        held = self.leases.get(lease.offset)
        return (
            held is not None
            and held.epoch == lease.epoch
            and now_ns < held.until_ns - SLACK_NS
            and not self.is_vague
        )

    def is_stale(self, lease: ModelLease) -> bool:
        """Whether somebody else has the message by now, or settled it, beyond doubt."""
        held = self.leases.get(lease.offset)
        if lease.offset in self.maybe_leases or lease.offset in self.maybe_settled:
            return False
        return lease.offset in self.settled or (held is not None and held.epoch != lease.epoch)

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

    def acked(self, leases: list[ModelLease], now_ns: int) -> None:
        for lease in leases:
            offset = lease.offset
            self.leases.pop(offset, None)
            self.maybe_leases.pop(offset, None)
            self.maybe_settled.discard(offset)
            self.settled.add(offset)
            self.settled_ns[offset] = now_ns

    def maybe_acked(self, offsets: list[int]) -> None:
        self.maybe_settled.update(offset for offset in offsets if offset not in self.settled)

    def given_back(self, leases: list[ModelLease], *, until_ns: int | None) -> None:
        for lease in leases:
            self.leases.pop(lease.offset, None)
            self.maybe_leases.pop(lease.offset, None)
            if until_ns is not None:
                self.delayed_until_ns[lease.offset] = until_ns

    def uncounted(self, offsets: list[int]) -> None:
        """A delivery that nobody was handed is not counted, or is: both may be."""
        for offset in offsets:
            least, most = self.deliveries.get(offset, (0, 0))
            self.deliveries[offset] = (max(0, least - 1), most + 1)

    def started_over(self, offset: int) -> None:
        """A seek: what is before it is settled, the rest is delivered again."""
        for at in [at for at in self.settled if at >= offset]:
            self.settled.discard(at)
        self.leases.clear()
        self.maybe_leases.clear()
        self.delayed_until_ns.clear()
        self.deliveries.clear()
        self.buried.clear()
        self.maybe_settled = {at for at in self.maybe_settled if at < offset}

    def lost_power(self, now_ns: int, sync_ms: int) -> None:
        """With `after_write` the last acks may be lost, and the last leases."""
        limit_ns = (sync_ms + 50) * 1_000_000
        for offset, when in list(self.settled_ns.items()):
            if now_ns - when <= limit_ns:
                self.settled.discard(offset)
                self.maybe_settled.add(offset)
        self.doubt_all()
        for offset, (_, most) in list(self.deliveries.items()):
            self.deliveries[offset] = (0, most)

    def reopened(self) -> None:
        """Leases stand, but when they end may be known less exactly."""
        self.is_vague = True


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
    incarnation: int = 0
