"""Workers beside one another, until the load ends; what they did together, and what failed.

A worker is a function that goes on while `is_on`. The first that fails ends the load. How far the
others are is what one waits for, never time: so the same is asked on a slow machine.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence


class Traffic:
    """Thread-safe."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._done = 0
        self.failures: list[str] = []

    @property
    def is_on(self) -> bool:
        return not self._is_over

    def start(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._run, args=(name, work), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def did(self, count: int = 1) -> None:
        """So many operations were acknowledged."""
        with self._changed:
            self._done += count
            self._changed.notify_all()

    def wait_for_more(self, count: int) -> bool:
        """Until so many more operations were acknowledged; False if the load ends before."""
        with self._changed:
            enough = self._done + count
            self._changed.wait_for(lambda: self._is_over or self._done >= enough)
            return not self._is_over

    def wait_until(self, is_so: Callable[[], bool]) -> bool:
        """Looked at after each operation of anybody; False if the load ends before."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or is_so())
            return not self._is_over

    def hold(self, seconds: float, *, is_enough: Callable[[], bool]) -> int:
        """Let it go on so long, and until it was enough; how many operations there were."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over, timeout=seconds)
            self._changed.wait_for(lambda: self._is_over or is_enough())
            return self._done

    def end(self) -> None:
        """Nothing new is asked for; those who wait go on."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def join(self, *, besides: str = "") -> None:
        """Until all have brought to an end what they had begun; but for the one of that name."""
        for thread in self._threads:
            if thread.name != besides:
                thread.join()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:  # noqa: BLE001 - told by the test, and the load ends
            self.failures.append(f"{name}: {traceback.format_exc()}")
            self.end()


class Window:
    """Who gives is never more than `ahead_max` ahead of the slowest of those who take.

    So retention, which keeps more than that, removes nothing that somebody has yet to see.
    """

    def __init__(self, traffic: Traffic, takers: Sequence[str], *, ahead_max: int) -> None:
        self._traffic = traffic
        self._ahead_max = ahead_max
        self._given = 0
        self._taken = dict.fromkeys(takers, 0)
        self._mutex = threading.Lock()

    def wait_for_room(self) -> bool:
        """False if the load ends before."""
        return self._traffic.wait_until(lambda: self._given - self.taken < self._ahead_max)

    def give(self, count: int) -> None:
        with self._mutex:
            self._given += count
        self._traffic.did()

    def take(self, who: str, count: int) -> None:
        with self._mutex:
            self._taken[who] += count
        self._traffic.did()

    @property
    def taken(self) -> int:
        """By the slowest."""
        return min(self._taken.values())


class Marks:
    """How often each number came; a byte each, for there are millions. Thread-safe."""

    def __init__(self) -> None:
        self._counts = bytearray()
        self._mutex = threading.Lock()

    def add(self, number: int) -> None:
        with self._mutex:
            missing = number + 1 - len(self._counts)
            if missing > 0:
                self._counts.extend(bytes(missing))
            self._counts[number] += 1

    def __len__(self) -> int:
        """Behind the largest number."""
        return len(self._counts)

    def are_once_each(self) -> bool:
        """Each number from 0 on came once."""
        return self._counts.count(1) == len(self._counts)
