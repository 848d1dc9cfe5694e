"""`verify` on a real session: the report of one process, and seeded damage in each engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakebed.seglake.model import State
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.tasks import BYTES_WORTH_A_TASK, grouped
from lakebed.spark.jobs.verify import check, verify
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store_check import verify_store
from lakebed.store.store_check_lines import report_lines
from tests.store.whole_stores import CHUNK, DAMAGES, open_store, write_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Watching:
    """A `Watcher` that keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done = 0

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        self.begun.append(what)

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        self.done = done

    def report_line(self, text: str) -> None:
        raise AssertionError(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    root = tmp_path_factory.mktemp("verify") / "root"
    write_store(root)
    return root


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Iterator[Path]:
    """One of its own."""
    shutil.copytree(whole, tmp_path / "root")
    yield tmp_path / "root"
    shutil.rmtree(tmp_path / "root")


def at(root: Path) -> Backend:
    return Backend(path=str(root))


@pytest.mark.spark
def test_the_report_of_a_whole_store_is_that_of_one_process(
    spark: SparkSession, whole: Path
) -> None:
    expected = verify_store(str(whole))
    watcher = Watching()
    checked = check(spark, at(whole), piece_bytes=CHUNK, watcher=watcher)
    assert checked.report == expected
    assert checked.report.is_good
    assert checked.size_bytes > expected.objects.bytes
    assert watcher.begun == ["list", "verify"]
    assert watcher.done > 20
    report = verify(spark, at(whole))
    assert report.is_good
    assert report.lines == tuple(report_lines(expected))
    assert (report.facts["problems"], report.facts["marked"]) == (0, 0)
    assert report.facts["chunks"] == expected.objects.chunks
    assert report.row_count == 41 + 120


@pytest.mark.spark
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_each_engine_is_found_and_fails_nothing(
    spark: SparkSession, root: Path, damage: str
) -> None:
    DAMAGES[damage](root)
    expected = verify_store(str(root))
    checked = check(spark, at(root))
    assert checked.report == expected
    assert not checked.report.is_good


@pytest.mark.spark
def test_all_damage_at_once_is_told_and_objects_are_marked(spark: SparkSession, root: Path) -> None:
    for damage in DAMAGES.values():
        damage(root)
    expected = verify_store(str(root))
    report = verify(spark, at(root), mark=False)
    assert not report.is_good
    assert report.lines == tuple(report_lines(expected))
    assert states(root) == {"big": "ACTIVE", "small": "ACTIVE"}
    report = verify(spark, at(root))
    assert (report.facts["problems"], report.facts["marked"]) == (expected.problem_count, 2)
    assert sum("marked as damaged" in line for line in report.lines) == 2
    assert states(root) == {"big": State.DAMAGED.value, "small": "ACTIVE"}
    assert not report.is_good


@pytest.mark.spark
def test_beside_its_writer_objects_are_marked_through_it(spark: SparkSession, root: Path) -> None:
    DAMAGES["chunk"](root)
    with open_store(root) as store:
        report = verify(spark, at(root))
        assert report.facts["marked"] == 1
        assert store.bucket("photos").head("big").state is State.DAMAGED


# What each task gets.


def test_tasks_get_about_the_same_number_of_bytes_in_order() -> None:
    sizes = [BYTES_WORTH_A_TASK // 3] * 100 + [0] * 7 + [BYTES_WORTH_A_TASK * 5]
    groups = grouped(sizes, tasks_min=4)
    assert len(groups) == 4
    assert [index for group in groups for index in group] == list(range(len(sizes)))
    dealt = [sum(sizes[index] for index in group) for group in groups]
    assert max(dealt) < 1.2 * min(dealt)


def test_little_is_one_task_and_much_is_many() -> None:
    assert grouped([1, 2, 3]) == [range(3)]
    assert grouped([]) == []
    assert grouped([0, 0]) == [range(2)]
    assert len(grouped([100] * 50, task_bytes=500)) == 10
    assert len(grouped([1 << 40])) == 1


def states(root: Path) -> dict[str, str]:
    with ReadOnlyStore(root) as store:
        return {row.key: row.state.value for row in store.bucket("photos").list()}
