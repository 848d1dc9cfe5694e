"""The expected state of a consumer group: the state of each message of each partition.

- A message is available, leased, settled by its holder, or a dead letter.
- A message is leased to one holder at a time, with an epoch that is never reused. Only that holder
  can settle it, not a holder from an earlier topic or group of the same name.
- A settled message is never delivered again, unless a client seeks or resets the group.

If a crash or a lost response hides whether a call took effect, the messages are in doubt: both
states are accepted until a delivery or the end of the run decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.simulator.violation import Promise, require

VAGUE_NS = 61 * 10**9  # a lease in doubt has ended after this time
_NEVER_NS = 1 << 62  # as the time of a change that has not been synced
SLACK_NS = 5_000_000  # a call may read the clock slightly before or after the model does


class ModelLease(NamedTuple):
    """A lease of one message by a client."""

    offset: int
    epoch: int
    until_ns: int  # by the monotonic clock
    delivery_count: int


class CountChange(NamedTuple):
    """A change of the lowest and the highest delivery count that a message may have."""

    before: tuple[int, int]
    after: tuple[int, int]


@dataclass
class GroupPartitionModel:
    """The expected state of one partition of a group."""

    name: str
    settled: set[int] = field(default_factory=set)
    maybe_settled: set[int] = field(default_factory=set)
    leases: dict[int, ModelLease] = field(default_factory=dict)
    maybe_leases: dict[int, ModelLease] = field(default_factory=dict)
    delayed_until_ns: dict[int, int] = field(default_factory=dict)
    deliveries: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # minimum and maximum count
    lost_leases_seen: dict[int, int] = field(
        default_factory=dict
    )  # offset → `lost_lease_count` at its last delivery
    settled_ns: dict[int, int] = field(default_factory=dict)
    acked_in_force: set[int] = field(default_factory=set)
    delivery_count_max: int = 0
    buried: set[int] = field(default_factory=set)  # messages that are or may be dead letters
    lost_lease_count: int = 0  # leases that may have been granted without reaching a client
    vague_until_ns: int = 0  # until then, leases unknown to the model may hold messages
    is_time_doubtful: bool = False  # opening the partition puts the ends of leases in doubt
    epochs: set[int] = field(default_factory=set)
    has_started_over: bool = False
    settled_before_ns: tuple[int, set[int]] = (
        field(  # time of the last reset or seek, and the messages settled before it
            default_factory=lambda: (-(1 << 62), set())
        )
    )
    in_flight: int = 0
    call_count: int = 0  # calls of clients that have begun

    def delivered(
        self, offset: int, *, epoch: int, until_ns: int, delivery_count: int, now_ns: int
    ) -> None:
        """Records that a lease call returned the message, and checks that it could be leased."""
        where = f"{self.name}: offset {offset}"
        what = f"{where} was delivered again after it was settled"
        require(offset not in self.settled, Promise.HOLDER, what)
        held = self.leases.get(offset)
        if held is not None:
            what = f"{where} was leased with epoch {epoch} while epoch {held.epoch} held a lease"
            require(held.until_ns - SLACK_NS <= now_ns, Promise.LEASE, what)
        delay_ns = self.delayed_until_ns.pop(offset, None)
        if delay_ns is not None:
            what = (
                f"{where} was nacked with a delay, but was delivered again before the delay ended"
            )
            require(delay_ns - SLACK_NS <= now_ns, Promise.SCHEDULE, what)
        least, most = self.deliveries.get(offset, (0, 0))
        most += 1 + self._lost_leases_of(offset)
        what = f"{where} has delivery count {delivery_count}, expected {least + 1} to {most}"
        require(least < delivery_count <= most, Promise.ACCOUNTED, what)
        self.deliveries[offset] = (delivery_count, delivery_count)
        self.lost_leases_seen[offset] = self.lost_lease_count
        self.maybe_leases.pop(offset, None)
        self.maybe_settled.discard(offset)
        self.leases[offset] = ModelLease(offset, epoch, until_ns, delivery_count)

    def is_available(self, offset: int, now_ns: int) -> bool:
        """Returns whether the next lease call must certainly return the message."""
        is_open = offset not in self.settled and offset not in self.maybe_settled
        held, doubtful = self.leases.get(offset), self.maybe_leases.get(offset)
        is_free = held is None or held.until_ns + VAGUE_NS < now_ns
        is_surely_free = doubtful is None or doubtful.until_ns + VAGUE_NS < now_ns
        is_time = self.delayed_until_ns.get(offset, 0) + SLACK_NS < now_ns
        is_fresh = not self.may_be_buried(offset)
        is_known = self.vague_until_ns < now_ns and offset not in self.buried
        return is_open and is_free and is_surely_free and is_time and is_fresh and is_known

    def epoch_used(self, epoch: int) -> None:
        require(
            epoch not in self.epochs, Promise.HOLDER, f"{self.name}: epoch {epoch} was used twice"
        )
        self.epochs.add(epoch)

    def is_certain(self, lease: ModelLease, now_ns: int) -> bool:
        """Returns whether the lease is certainly valid."""
        held = self.leases.get(lease.offset)
        return held is not None and held.epoch == lease.epoch and now_ns < held.until_ns - SLACK_NS

    def is_stale(self, lease: ModelLease, *, is_ack: bool) -> bool:
        """Returns whether the message is certainly settled, or leased with another epoch.

        With `is_ack`, a message that is settled, or may be a dead letter, does not count: a message
        may be acked twice, because the first response may have been lost.
        """
        held = self.leases.get(lease.offset)
        if lease.offset in self.maybe_leases or lease.offset in self.maybe_settled:
            return False
        is_settled = lease.offset in self.settled and not is_ack
        is_other = held is not None and held.epoch != lease.epoch
        return is_settled or (is_other and not (is_ack and self.may_be_buried(lease.offset)))

    def may_be_buried(self, offset: int) -> bool:
        """Returns whether the message may be a dead letter. Dead letters count as settled."""
        count = max(self.deliveries.get(offset, (0, 0))) + self._lost_leases_of(offset)
        return 0 < self.delivery_count_max <= count

    def may_move_letters(self, offsets: list[int]) -> None:
        """Records that a call may lease messages to move them to the dead-letter topic.

        Such a lease raises the delivery count if a crash undoes the move but not the lease.
        """
        for offset in offsets:
            if offset not in self.settled and self.may_be_buried(offset):
                least, most = self.deliveries.get(offset, (0, 0))
                self.deliveries[offset] = (least, most + 1)

    def _lost_leases_of(self, offset: int) -> int:
        """Returns how many leases that reached no client may have had the message since its last
        delivery.
        """
        return self.lost_lease_count - self.lost_leases_seen.get(offset, 0)

    def doubt(self, offsets: list[int]) -> None:
        """Records that a call in progress may end the leases of these messages."""
        for offset in offsets:
            held = self.leases.pop(offset, None)
            if held is not None:
                self.maybe_leases[offset] = held

    def doubt_all(self) -> None:
        self.doubt(list(self.leases))

    def acked(self, leases: list[ModelLease], now_ns: int, *, is_certain: bool = True) -> None:
        """Records that the messages were acked.

        With `is_certain`, the leases were valid, so the messages cannot be dead letters.
        """
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
        """Records that an ack is in progress. Returns the offsets that were neither settled nor in
        doubt before.
        """
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

    def maybe_uncount(self, offsets: list[int]) -> dict[int, CountChange]:
        """Records that a call in progress may lower the delivery counts of these messages by one.

        Returns what it changed, for `restore_counts`.
        """
        changes = {}
        for offset in offsets:
            least, most = before = self.deliveries.get(offset, (0, 0))
            self.deliveries[offset] = (max(0, least - 1), most)
            changes[offset] = CountChange(before, self.deliveries[offset])
        return changes

    def restore_counts(self, changes: Mapping[int, CountChange]) -> list[int]:
        """Undoes `maybe_uncount` for the messages whose counts have not changed since.

        Returns their offsets. The others were delivered in the meantime, or a crash put their
        counts in doubt.
        """
        same = [at for at, change in changes.items() if self.deliveries.get(at) == change.after]
        for offset in same:
            self.deliveries[offset] = changes[offset].before
        return same

    def uncount(self, offsets: list[int], *, is_durable: bool) -> None:
        """Records that the messages were given back, which lowers their delivery counts by one.

        Unless `is_durable`, a crash may undo this, so the earlier counts remain possible.
        """
        for offset in offsets:
            least, most = self.deliveries.get(offset, (0, 0))
            self.deliveries[offset] = (max(0, least - 1), max(0, most - is_durable))

    def released(self) -> None:
        """Records that all leases have ended."""
        self.leases.clear()
        self.maybe_leases.clear()

    def doubt_everything(self) -> None:
        """Records that a reset, seek or deletion is in progress, so settled messages may be
        delivered again.
        """
        self.doubt_all()
        self.maybe_settled |= self.settled
        self.settled.clear()
        self.has_started_over = True
        self.acked_in_force.clear()
        self._forget_counts()

    def started_over(self, place: int, now_ns: int) -> None:
        """Records a reset or seek: messages before offset `place` are settled, all others
        available.
        """
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

    def killed(self, now_ns: int, limit_ns: int) -> None:
        """Records a kill of the process, which cannot sync the acks, resets and seeks of the last
        `limit_ns` any more.

        A power cut may lose them until the group was opened and closed again.
        """
        when_ns, before = self.settled_before_ns
        if now_ns - when_ns <= limit_ns:
            self.settled_before_ns = (_NEVER_NS, before)
        for offset, when in self.settled_ns.items():
            if now_ns - when <= limit_ns:
                self.settled_ns[offset] = _NEVER_NS

    def lost_power(self, now_ns: int, limit_ns: int) -> None:
        """Records that a power cut may have lost the acks, resets and seeks of the last `limit_ns`,
        and any lease.
        """
        when_ns, before = self.settled_before_ns
        if now_ns - when_ns <= limit_ns:
            self.maybe_settled |= before | self.settled
            self.settled.clear()
        for offset, when in list(self.settled_ns.items()):
            if now_ns - when <= limit_ns and offset in self.settled:
                self.settled.discard(offset)
                self.maybe_settled.add(offset)
        self.acked_in_force &= self.settled
        self.doubt_all()
        self._forget_counts()
        self.delayed_until_ns.clear()
        self.vague_until_ns = now_ns + VAGUE_NS

    def lost_events(self) -> None:
        """Records that the delta log is lost: settled messages may be delivered again, and epochs
        may be used again, because a new incarnation begins.
        """
        self.doubt_everything()
        self.delayed_until_ns.clear()
        self.epochs.clear()

    def maybe_opened(self, now_ns: int) -> None:
        """Records that the partition was opened or may be opened. Leases and delays remain; if the
        wall clock was set since they were recorded, their ends are in doubt.

        The ends are times of the monotonic clock only while the partition is open. In its files
        they are times of the wall clock.
        """
        if self.is_time_doubtful:
            self.doubt_all()
            self.delayed_until_ns.clear()
            self.vague_until_ns = now_ns + VAGUE_NS


@dataclass
class GroupModel:
    """The expected state of one group, from its creation to its deletion."""

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
    deleting: int = 0  # calls in progress that delete the group
    incarnations: list[int] = field(default_factory=list)  # by partition
    letters: set[tuple[int, int]] = field(default_factory=set)  # partition and offset

    def maybe_closed(self, now_ns: int, *, is_disk_failing: bool) -> None:
        """Records that the group may be closed and opened again while the store stays open.

        If the disk fails then, the changes that were not synced may be lost, as in a power cut.
        """
        for part in self.partitions:
            part.call_count += 1
            part.maybe_opened(now_ns)
            if is_disk_failing and not self.syncs:
                part.lost_power(now_ns, 1 << 62)

    @property
    def in_flight_any(self) -> bool:
        return any(part.in_flight for part in self.partitions)
