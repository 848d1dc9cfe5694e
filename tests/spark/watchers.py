"""A watcher that keeps what it was told."""

from __future__ import annotations


class KeepingWatcher:
    def __init__(self) -> None:
        self.began: list[tuple[str, int, str]] = []
        self.advances: list[tuple[int, int]] = []
        self.said: list[str] = []

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        self.began.append((what, total, unit))

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        self.advances.append((done, size_bytes))

    def report_line(self, text: str) -> None:
        self.said.append(text)
