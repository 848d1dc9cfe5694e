"""A group as one dictionary of messages: slow, and plainly right."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.stroma.config import GroupConfig


@dataclass
class Message:
    """One message."""

    key: int | None = None
    not_before_ms: int = 0
    is_settled: bool = False
    deliveries: int = 0
    epoch: int | None = None  # of the lease it is in
    deadline_ms: int = 0


class Model:
    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.messages: list[Message] = []
        self.facts: list[tuple[int | None, int, bool]] = []  # as appended

    def append(
        self, count: int, *, key: int | None, not_before_ms: int, is_deliverable: bool
    ) -> None:
        for _ in range(count):
            self.facts.append((key, not_before_ms, is_deliverable))
            self.messages.append(_message(key, not_before_ms, is_deliverable))

    def expire(self, now_ms: int) -> None:
        for message in self.messages:
            if message.epoch is not None and message.deadline_ms <= now_ms:
                message.epoch = None

    def in_flight(self) -> list[int]:
        return [o for o, message in enumerate(self.messages) if message.epoch is not None]

    def leasable(self, now_ms: int, *, is_exhausted: bool) -> list[int]:
        """What a lease of all would be given, lowest first, without those `following`."""
        found: list[int] = []
        keys = self.leased_keys() if self.config.per_key_order else set()
        for offset, message in enumerate(self.messages):
            if message.is_settled:
                continue
            is_free = message.key not in keys or not self.config.per_key_order
            if message.key is not None:
                keys.add(message.key)
            if is_free and self._can_be_leased(message, now_ms, is_exhausted=is_exhausted):
                found.append(offset)
        return found[: self.room()]

    def following(self, firsts: list[int], now_ms: int) -> list[int]:
        """What may follow those in a lease that has room for all: the rest of their keys."""
        if not self.config.per_key_order:
            return []
        found: list[int] = []
        going_on = {self.messages[offset].key for offset in firsts} - {None}
        for offset, message in enumerate(self.messages):
            if message.is_settled or message.key not in going_on or offset in firsts:
                continue
            if self._can_be_leased(message, now_ms, is_exhausted=False):
                found.append(offset)
            else:
                going_on.remove(message.key)
        return found

    def room(self) -> int:
        return max(0, self.config.in_flight_max - len(self.in_flight()))

    def leased_keys(self) -> set[int]:
        keys = {self.messages[offset].key for offset in self.in_flight()}
        return {key for key in keys if key is not None}

    def holders(self, key: int) -> set[int]:
        """The leases that have messages of a key."""
        return {m.epoch for m in self.messages if m.key == key and m.epoch is not None}

    def _can_be_leased(self, message: Message, now_ms: int, *, is_exhausted: bool) -> bool:
        is_dead = 0 < self.config.delivery_count_max <= message.deliveries
        return message.epoch is None and message.not_before_ms <= now_ms and is_dead == is_exhausted

    def lease(self, offsets: list[int], *, epoch: int, deadline_ms: int) -> None:
        for offset in offsets:
            message = self.messages[offset]
            message.epoch, message.deadline_ms = epoch, deadline_ms
            message.not_before_ms = 0
            message.deliveries += 1

    def holds(self, offsets: list[int], *, epoch: int) -> bool:
        return all(o < len(self.messages) and self.messages[o].epoch == epoch for o in offsets)

    def is_settled(self, offset: int) -> bool:
        return offset < len(self.messages) and self.messages[offset].is_settled

    def settle(self, offsets: list[int]) -> None:
        for offset in offsets:
            self.messages[offset].is_settled = True
            self.messages[offset].epoch = None

    def give_back(self, offsets: list[int], *, not_before_ms: int) -> None:
        for offset in offsets:
            self.messages[offset].epoch = None
            self.messages[offset].not_before_ms = not_before_ms

    def undo(self, offsets: list[int]) -> None:
        self.give_back(offsets, not_before_ms=0)
        for offset in offsets:
            self.messages[offset].deliveries -= 1

    def seek(self, target: int) -> None:
        self.messages = [_message(*fact) for fact in self.facts]
        self.settle(list(range(target)))


def _message(key: int | None, not_before_ms: int, is_deliverable: bool) -> Message:
    return Message(key, not_before_ms, is_settled=not is_deliverable)
