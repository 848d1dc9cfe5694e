"""The sweep finds what it is there to find, and tells how to see it again."""

from __future__ import annotations

import re

import pytest

from lakebed.base.errors import InputError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import CASE_VARIABLE, Case, CaseFailed, sweep
from lakebed.base.simulation.world import World


class Careless:
    """Acknowledges before the sync: a power cut must catch it."""

    syncs = False

    def __init__(self) -> None:
        self.acknowledged = b""

    def run(self, world: World) -> None:
        with world.disk.create("/log") as file:
            world.disk.sync_folder("/")
            for n in range(3):
                file.pwrite(n, b"x")
                if self.syncs:
                    file.sync()
                self.acknowledged += b"x"

    def check(self, world: World) -> None:
        found = b""
        if world.disk.exists("/log"):
            found = world.disk.open("/log").pread(0, 10)
        assert found.startswith(self.acknowledged)


class Careful(Careless):
    syncs = True


def test_an_ack_before_the_sync_is_found_and_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(CaseFailed) as caught:
        sweep(Careless, seeds=[3])
    found = re.search(rf"{CASE_VARIABLE}=(\S+)", str(caught.value))
    assert found is not None
    assert Case.parse(found[1]).crash is Crash.POWER
    monkeypatch.setenv(CASE_VARIABLE, found[1])
    with pytest.raises(CaseFailed, match=re.escape(found[1])):
        sweep(Careless, seeds=[])
    assert sweep(Careful, seeds=[]) == 1


def test_a_sweep_tries_each_step_in_each_way() -> None:
    # create, fsync and three times write and sync, and the moment behind them: nine places.
    assert sweep(Careful, seeds=[1, 2], survivors=[0, 1, 5]) == 2 * 9 * 4


def test_long_sweeps_are_sampled() -> None:
    assert sweep(Careful, seeds=range(4), cases_max=10) == 10


@pytest.mark.parametrize("text", ["", "1:2:power", "a:2:power:0", "1:2:fire:0"])
def test_a_case_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="seed:step"):
        Case.parse(text)


def test_a_case_reads_back() -> None:
    case = Case(7, 31, Crash.POWER, 2)
    assert str(case) == "7:31:power:2"
    assert Case.parse(str(case)) == case
