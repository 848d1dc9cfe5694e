"""A partition as a group sees it, in memory: a number of messages, some with something special."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.stroma.source import Fact


class FakeSource:
    """Messages are appended by `append`; `special` has those that need care."""

    def __init__(self, count: int = 0) -> None:
        self.start = 0
        self.end = count
        self.special: dict[int, Fact] = {}
        self.asked: list[tuple[int, int]] = []
        self._listeners: list[Callable[[], None]] = []

    def append(
        self,
        count: int = 1,
        *,
        key: int | None = None,
        not_before_ms: int = 0,
        is_deliverable: bool = True,
    ) -> range:
        """The new messages' offsets."""
        added = range(self.end, self.end + count)
        if key is not None or not_before_ms or not is_deliverable:
            for offset in added:
                self.special[offset] = Fact(offset, key, not_before_ms, is_deliverable)
        self.end += count
        for listener in tuple(self._listeners):
            listener()
        return added

    def start_offset(self) -> int:
        return self.start

    def high_watermark(self) -> int:
        return self.end

    def facts(self, start: int, end: int) -> Sequence[Fact]:
        self.asked.append((start, end))
        if len(self.special) < end - start:
            return [self.special[o] for o in sorted(self.special) if start <= o < end]
        return [self.special[o] for o in range(start, end) if o in self.special]

    def message_count(self, start: int, end: int) -> int:
        gone = [o for o, fact in self.special.items() if start <= o < end]
        return end - start - sum(not self.special[o].is_deliverable for o in gone)

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(callback)

        def stop() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return stop

    def forget_listeners(self) -> None:
        """The process they were in is gone."""
        self._listeners.clear()
