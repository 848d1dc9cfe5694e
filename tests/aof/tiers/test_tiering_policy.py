"""When it is time to compress and upload, rule by rule."""

from __future__ import annotations

import pytest

from lakebed.aof.tiers.config import TierConfig
from lakebed.aof.tiers.tiering_policy import (
    Fill,
    Load,
    TieringPolicy,
    is_pause,
    is_pressed,
    is_time,
    pause_due_ns,
    time_due_ns,
)
from lakebed.base.errors import BadConfig

PACING = TieringPolicy(pause_ns=250, wait_ns_max=10_000, burst_percent=50)
NOW = 100_000


def load(
    *, quiet_ns: int = 0, held: int = 0, held_by_all: int = 0, is_refused: bool = False
) -> Load:
    """Of a log that may have 1,000 bytes in Tier 0, as all logs may have 4,000."""
    fills = (Fill(held, 1_000), Fill(held_by_all, 4_000))
    return Load(NOW, NOW - quiet_ns, fills, is_refused)


@pytest.mark.parametrize(
    ("now", "waited_ns", "expected"),
    [
        (load(), 0, False),
        (load(quiet_ns=249), 9_999, False),
        (load(quiet_ns=250), 0, True),
        (load(), 10_000, True),
        (load(held=500), 0, False),
        (load(held=501), 0, True),
        (load(held_by_all=2_000), 0, False),
        (load(held_by_all=2_001), 0, True),
        (load(is_refused=True), 0, True),
    ],
)
def test_when_it_is_time(now: Load, waited_ns: int, expected: bool) -> None:
    since_ns = NOW - waited_ns
    assert is_time(now, PACING, waiting_since_ns=since_ns) == expected
    assert (time_due_ns(now, PACING, waiting_since_ns=since_ns) == 0) == expected


@pytest.mark.parametrize(
    ("quiet_ns", "waited_ns", "due_ns"),
    [(0, 0, 250), (100, 0, 150), (249, 0, 1), (0, 9_900, 100), (200, 9_900, 50)],
)
def test_the_next_look_is_at_the_next_pause_or_when_it_has_waited_enough(
    quiet_ns: int, waited_ns: int, due_ns: int
) -> None:
    now = load(quiet_ns=quiet_ns)
    assert time_due_ns(now, PACING, waiting_since_ns=NOW - waited_ns) == due_ns
    later = now._replace(now_ns=NOW + due_ns)
    assert is_time(later, PACING, waiting_since_ns=NOW - waited_ns), "it is time then"


@pytest.mark.parametrize(("quiet_ns", "due_ns"), [(0, 250), (249, 1), (250, 0), (9_000, 0)])
def test_a_pause_is_due_when_nothing_is_flushed_until_then(quiet_ns: int, due_ns: int) -> None:
    now = load(quiet_ns=quiet_ns)
    assert pause_due_ns(now, PACING) == due_ns
    assert is_pause(now, PACING) == (due_ns == 0)


@pytest.mark.parametrize(("percent", "held", "expected"), [(0, 1, True), (100, 1_000, False)])
def test_nothing_and_all_of_tier_0_may_be_kept_for_bursts(
    percent: int, held: int, expected: bool
) -> None:
    assert is_pressed(load(held=held), PACING._replace(burst_percent=percent)) == expected


def test_without_a_pause_to_wait_for_it_is_always_time() -> None:
    assert is_time(load(), PACING._replace(pause_ns=0), waiting_since_ns=NOW)


def test_the_settings_are_in_their_own_units() -> None:
    pacing = TierConfig(pause_ms=3, wait_ms_max=4_000, burst_percent=20).pacing()
    assert pacing == TieringPolicy(pause_ns=3_000_000, wait_ns_max=4_000_000_000, burst_percent=20)
    assert pacing.burst_bytes(1_000) == 200


@pytest.mark.parametrize("setting", [{"burst_percent": 101}, {"pause_ms": -1}, {"wait_ms_max": -1}])
def test_settings_out_of_their_bounds_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(BadConfig):
        TierConfig(**setting)  # type: ignore[arg-type]
