"""Bytes of version 1, written once and never again: a difference is a new version."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.stroma.delta import DeltaWalk, Verdict, decode_header
from lakebed.stroma.events import Event, encode
from lakebed.stroma.snapshot import Snapshot, decode_snapshot, encode_snapshot
from tests.stroma.groups import NAME
from tests.stroma.samples import EVENTS, SNAPSHOT, T, delta_bytes, flagged_event

GOLDEN = Path(__file__).parents[1] / "golden" / "stroma" / "v1"
EMPTY = Snapshot(generation=2, created_ts_ms=T, acked_until=7, last_epoch=1)

CONTENTS = {
    "group.snap.bin": encode_snapshot(SNAPSHOT, NAME),
    "empty.snap.bin": encode_snapshot(EMPTY, NAME),
    "group.delta.bin": delta_bytes() + flagged_event(),
    "empty.delta.bin": delta_bytes([], generation=9),
    **{
        f"{number:02}-{type(event).__name__}.event.bin": b"".join(encode([event]))
        for number, event in enumerate(EVENTS)
    },
}


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("name", CONTENTS)
def test_the_same_bytes_are_written_today(name: str) -> None:
    assert CONTENTS[name] == golden(name)


def test_there_is_no_other_golden_file() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(CONTENTS)


@pytest.mark.parametrize(
    ("name", "snapshot"), [("group.snap.bin", SNAPSHOT), ("empty.snap.bin", EMPTY)]
)
def test_a_golden_snapshot_is_read(name: str, snapshot: Snapshot) -> None:
    assert decode_snapshot(golden(name), NAME) == snapshot


@pytest.mark.parametrize(
    ("name", "generation", "events"),
    [("group.delta.bin", 1, EVENTS), ("empty.delta.bin", 9, [])],
)
def test_a_golden_delta_is_whole(name: str, generation: int, events: list[Event]) -> None:
    data = memoryview(golden(name))
    assert decode_header(data).generation == generation
    walk = DeltaWalk(data)
    assert [placed.event() for placed in walk][: len(events)] == events
    assert (walk.verdict, walk.end) == (Verdict.WHOLE, len(data))
