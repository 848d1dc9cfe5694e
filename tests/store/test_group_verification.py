"""Verifying consumer groups and the key that seals secrets: damage anywhere in their files."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest

from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.seglake.verification_report import Kind
from lakebed.store.group_verification import GroupPiece, check_group, plan_groups
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.store_check import (
    StoreCheck,
    StoreReport,
    join_store,
    plan_store,
    verify_store,
)
from lakebed.store.store_check_lines import report_lines
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.events import frame
from lakebed.stroma.format import EVENTS_START, SNAPSHOT_HEADER
from lakebed.stroma.paths import GroupName, GroupPaths
from tests.seglake.damaged_lakes import change_rows, flip

NAME = GroupName("events", 0, "readers")
LONG = GroupName("events", 0, "a long name " * 20)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be copied, not changed: a group with settings of its own, one with a long name, keys."""
    root = tmp_path_factory.mktemp("written") / "root"
    with Store.open(root) as store:
        topic = store.topic("events")
        topic.append_batch([b"%d" % number for number in range(20)]).result()
        group = topic.group("readers", config=GroupConfig(lease_ms=5000))
        group.ack_all(group.lease(max_messages=3))
        group.seek(1, partition=0)
        for _ in range(3):
            group.ack_all(group.lease(max_messages=2))
        long = topic.group(LONG.group)
        long.ack_all(long.lease(max_messages=1))
        for label in ("one", "two"):
            store.keys.create(label=label)
    return root


@pytest.fixture
def root(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "root"))


@pytest.fixture
def paths(root: Path) -> GroupPaths:
    return GroupPaths(root, NAME)


def problems(root: Path) -> list[str]:
    """Of groups; there are no others."""
    report = verify_store(root)
    found = list(map(str, report.groups.problems))
    assert report.problem_count == len(found)
    assert report.is_good == (not found)
    lines = report_lines(report)
    assert all(one in lines for one in found)
    return found


def test_whole_groups_are_counted(root: Path) -> None:
    report = verify_store(root)
    assert report.is_good
    assert (report.groups.groups, report.groups.partitions) == (2, 2)
    assert report.groups.events > 3
    assert any(line.startswith("2 groups, 2 partitions, ") for line in report_lines(report))


def test_pieces_that_are_checked_elsewhere_give_the_same_report(
    root: Path, paths: GroupPaths
) -> None:
    flip(Path(paths.delta), EVENTS_START + 3)
    flip(root / "secret.key", 30)
    with ReadOnlyStore(root) as store:
        plan = pickle.loads(pickle.dumps(plan_store(store, bytes_max=1)))  # noqa: S301
    found = []
    for piece in plan.pieces():
        with ReadOnlyStore(root) as store, StoreCheck(store) as check:
            found.append(pickle.loads(pickle.dumps(check.run(piece))))  # noqa: S301
    report = join_store(plan, found)
    assert report == verify_store(root)
    assert report.problem_count == 2


def test_an_invalid_event_is_reported_with_all_its_bytes(root: Path, paths: GroupPaths) -> None:
    delta, event = Path(paths.delta), frame(2, bytes(9))
    size = delta.stat().st_size
    delta.write_bytes(delta.read_bytes() + event)
    [problem] = verify_store(root).groups.problems
    assert (problem.offset, problem.length) == (size, len(event))


def test_every_damaged_byte_of_a_delta_is_found(root: Path, paths: GroupPaths) -> None:
    delta = Path(paths.delta)
    whole = delta.read_bytes()
    assert len(whole) > EVENTS_START + 50
    with ThreadRunner() as runner:
        for offset in range(0, len(whole), 7):
            flip(delta, offset)
            found = check_group(real_disk(), root, GroupPiece(NAME), runner=runner)
            assert found is not None
            assert found.problems, offset
            assert {problem.path for problem in found.problems} == {paths.delta}
            flip(delta, offset)


def test_a_delta_that_is_cut_short_is_torn(root: Path, paths: GroupPaths) -> None:
    os.truncate(paths.delta, os.path.getsize(paths.delta) - 3)
    [problem] = problems(root)
    assert problem.startswith(f"{paths.delta}: at byte ")
    assert problem.endswith("torn: an incomplete event")
    os.truncate(paths.delta, 20)
    [problem] = problems(root)
    assert problem == f"{paths.delta}: at byte 0: torn: the header is incomplete"


def test_damage_of_a_snapshot_is_found(root: Path, paths: GroupPaths) -> None:
    make_snapshot(root, paths)
    assert problems(root) == []
    snapshot = Path(paths.snapshot)
    for offset in (SNAPSHOT_HEADER.size + 3, 30):
        flip(snapshot, offset)
        [problem] = problems(root)
        assert problem.startswith(f"{snapshot}: ")
        flip(snapshot, offset)
    snapshot.unlink()
    [problem] = problems(root)
    assert "the delta log continues a newer snapshot, which is missing" in problem


def test_a_missing_delta_is_a_stated_loss_that_stays_on_record(
    root: Path, paths: GroupPaths
) -> None:
    make_snapshot(root, paths)
    assert problems(root) == []
    Path(paths.delta).unlink()
    assert problems(root) == [f"{paths.delta}: corrupt: the file is missing"]
    with Store.open(root) as store:
        [problem] = store.topic("events").group("readers").describe()[0].problems
        assert problem.startswith(f"{paths.delta}: the delta log of generation ")
        record = store.damage.list()[-1]
    assert (record.engine, record.name, record.saved) == ("groups", "events/readers", ())
    assert record.problem.endswith("acks may be lost, so messages may be delivered again")
    report = verify_store(root)
    assert not report.is_good
    assert [one.id for one in report.damage] == [record.id]
    assert report.groups.problems == ()


def test_a_group_that_is_being_removed_or_lost_its_topic_has_lost_no_delta(
    root: Path, paths: GroupPaths
) -> None:
    """A crash interrupted it: first the delta is removed, then the snapshot."""
    plan = plan_groups(real_disk(), root)
    Path(paths.delta).unlink()
    Path(paths.removal).write_text('{"topic": "events", "group": "readers", "partitions": [0]}')
    with ThreadRunner() as runner:
        found = [check_group(real_disk(), root, one, runner=runner) for one in plan.pieces]
        assert [one.name for one in found if one is not None] == [LONG]
        Path(paths.removal).unlink()
        shutil.rmtree(root / "topics" / "events")
        assert check_group(real_disk(), root, GroupPiece(NAME), runner=runner) is None


def make_snapshot(root: Path, paths: GroupPaths) -> None:
    os.truncate(paths.delta, os.path.getsize(paths.delta) - 3)
    flip(Path(paths.delta), EVENTS_START + 3)  # damage in the middle is folded away when it opens
    with Store.open(root) as store:
        store.topic("events").group("readers")
        store.damage.acknowledge(1)
    assert Path(paths.snapshot).exists()


def test_damage_of_settings_and_of_names_is_found(root: Path, paths: GroupPaths) -> None:
    Path(paths.settings).write_text("{")
    [problem] = problems(root)
    assert problem.startswith(f"{paths.settings}: corrupt: the settings of the group are damaged")
    Path(paths.settings).unlink()
    long = GroupPaths(root, LONG)
    Path(long.names).unlink()
    [problem] = problems(root)
    assert problem.startswith(f"{long.delta}: corrupt: the group of this file is unknown")


def test_a_group_that_goes_meanwhile_is_no_damage(root: Path) -> None:
    plan = plan_groups(real_disk(), root)
    assert len(plan.pieces) == 2
    for piece in plan.pieces:
        GroupPaths(root, piece.name).remove(real_disk())
    with ThreadRunner() as runner:
        assert [check_group(real_disk(), root, one, runner=runner) for one in plan.pieces] == [
            None,
            None,
        ]


def test_files_of_a_newer_program_are_told_as_not_checked(root: Path, paths: GroupPaths) -> None:
    Path(paths.settings).write_text('{"format": "lakebed group", "version": 2, "config": {}}')
    report = verify_store(root)
    assert [one.what for one in report.unchecked] == ["group events-0 readers"]
    assert not report.is_good


# The key that seals secrets.


def of_secrets(report: StoreReport) -> list[str]:
    assert not report.is_good
    found = [one for one in report.objects.problems if one.kind is Kind.SECRET_KEY]
    assert report.problem_count == len(found)
    return list(map(str, found))


def test_a_damaged_missing_or_foreign_key_of_secrets_is_found(root: Path, tmp_path: Path) -> None:
    path = root / "secret.key"
    whole = path.read_bytes()
    flip(path, 30)
    [problem] = of_secrets(verify_store(root))
    assert problem == f"secret key {path}: the secret key file is damaged: wrong checksum"
    path.write_bytes(whole[:-1])
    [problem] = of_secrets(verify_store(root))
    assert "is truncated" in problem
    path.unlink()
    [problem] = of_secrets(verify_store(root))
    assert "the secret key file is missing" in problem
    with Store.open(tmp_path / "other") as other:
        other.keys.create()
    shutil.copy(tmp_path / "other" / "secret.key", path)
    [problem] = of_secrets(verify_store(root))
    assert "was encrypted with another key" in problem
    path.write_bytes(whole)
    assert verify_store(root).is_good


@pytest.mark.parametrize("kept", ["length(secret) - 1", "5"])
def test_a_damaged_secret_is_damage_of_the_metadata(root: Path, kept: str) -> None:
    change_rows(root, f"UPDATE api_keys SET secret = substr(secret, 1, {kept})")  # noqa: S608
    found = verify_store(root).objects.problems
    assert {problem.kind for problem in found} == {Kind.METADATA}
    assert len(found) == 2
