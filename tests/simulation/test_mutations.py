"""Known faults that patches put back: each patch applies, and a simulation finds the fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.simulator.drawing import draw_plan
from lakebed.simulator.run import run_plan
from lakebed.simulator.violation import Promise
from tools.mutations import ROOT, Mutation, Simulations, apply, mutations, scratch_sources


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_patch_applies_to_the_sources(mutation: Mutation) -> None:
    assert apply(mutation, ROOT, is_trial=True) is None


def test_twenty_patches_are_expected_to_be_found() -> None:
    expected = [each for each in mutations() if each.unfound_because is None]
    assert len(expected) >= 20


def test_patch_that_does_not_apply_is_reported(tmp_path: Path) -> None:
    (mutation,) = mutations(["48"])
    (tmp_path / "src").mkdir()
    problem = apply(mutation, tmp_path)
    assert problem is not None
    assert "listeners.py" in problem


def test_patch_without_its_promise_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "99-nothing.patch"
    path.write_text("--- a/src/x\n+++ b/src/x\n")
    with pytest.raises(ValueError, match=r"99-nothing\.patch: its first line"):
        Mutation.read(path)


def test_promises_and_the_reason_why_a_fault_is_not_found_are_read(tmp_path: Path) -> None:
    path = tmp_path / "99-nothing.patch"
    path.write_text("# Breaks: all.\n# Seen as: a, b\n# Expected: not found, because it is slow.\n")
    assert Mutation.read(path) == Mutation("99-nothing", path, "all.", ("a", "b"), "it is slow.")


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_promises_by_which_a_fault_is_seen_are_promises(mutation: Mutation) -> None:
    assert mutation.seen_as
    assert set(mutation.seen_as) <= {promise.value for promise in Promise}


def test_sources_without_a_patch_keep_every_promise() -> None:
    assert run_plan(draw_plan(1, 200)).violation is None


@pytest.mark.process
def test_fault_that_is_put_back_is_found() -> None:
    (mutation,) = mutations(["48"])
    with scratch_sources() as folder:
        assert apply(mutation, folder) is None
        simulations = Simulations(step_count=1000, seconds_max=120)
        violation, _ = simulations.search(folder, mutation.seen_as)
    assert violation is not None
    assert violation.promise == "failures-are-named-errors"
