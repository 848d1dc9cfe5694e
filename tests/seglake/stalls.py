"""Commits that do not end before a test says so, and a queue that takes nothing more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

from lakebed.base.commit import Ticket
from lakebed.base.errors import Busy
from lakebed.base.units import MIB
from lakebed.seglake.change import Change
from lakebed.seglake.lake import Lake
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import Chunk


@contextlib.contextmanager
def stalled(lake: Lake) -> Iterator[None]:
    """Nothing is committed before this is left."""
    has_begun, may_end = threading.Event(), threading.Event()

    def apply(_writer: Writer, _chunks: tuple[Chunk, ...]) -> None:
        has_begun.set()
        may_end.wait()

    ticket = Change(lake._barrier, apply).submit()
    has_begun.wait()
    try:
        yield
    finally:
        may_end.set()
        ticket.wait()


def fill(lake: Lake, bucket: str) -> list[Ticket[Any]]:
    """The queue takes nothing more."""
    found: list[Ticket[Any]] = []
    with contextlib.suppress(Busy):
        for number in count():
            change = lake.objects.small_put(bucket, f"filling {number}", bytes(MIB))
            found.append(change.submit(timeout=0))
    with contextlib.suppress(Busy):
        while True:
            found.append(lake.buckets.creation(bucket).submit(timeout=0))
    return found
