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
        """What a lease of all would be given, lowest first."""
        found: list[int] = []
        keys: set[int] = set()
        limit = self.config.delivery_count_max
        for offset, message in enumerate(self.messages):
            if message.is_settled:
                continue
            is_free = message.key not in keys or not self.config.per_key_order
            if message.key is not None:
                keys.add(message.key)
            is_dead = 0 < limit <= message.deliveries
            if (
                is_free
                and message.epoch is None
                and message.not_before_ms <= now_ms
                and is_dead == is_exhausted
            ):
                found.append(offset)
        return found[: max(0, self.config.in_flight_max - len(self.in_flight()))]

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

    def seek(self, target: int) -> None:
        self.messages = [_message(*fact) for fact in self.facts]
        self.settle(list(range(target)))


def _message(key: int | None, not_before_ms: int, is_deliverable: bool) -> Message:
    return Message(key, not_before_ms, is_settled=not is_deliverable)
