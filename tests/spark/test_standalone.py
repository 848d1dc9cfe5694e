"""Queries and jobs on a real standalone cluster, whose workers cannot see the store's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark import far_checks as checks
from tests.spark.cluster import Cluster, Driver
from tests.spark.far_stores import Far, make_store, served
from tests.spark.hidden import HiddenFolder, hidden_folder

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(600)]

OPTIONS = {
    "spark.cores.max": "2",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "2",
}


@pytest.fixture(scope="module")
def hidden() -> Iterator[HiddenFolder]:
    with hidden_folder() as folder:
        make_store(folder.path / "store")
        folder.close_off()
        yield folder


@pytest.fixture(scope="module")
def far(hidden: HiddenFolder) -> Iterator[Far]:
    with served(hidden, "store") as far:
        yield far


@pytest.fixture(scope="module")
def driver(hidden: HiddenFolder) -> Iterator[Driver]:
    folder = hidden.path.parent / "spark"
    folder.mkdir(mode=0o755)
    with Cluster(folder, hidden) as cluster, Driver(master=cluster.url, **OPTIONS) as driver:
        yield driver


def test_the_workers_cannot_see_the_store(driver: Driver, far: Far) -> None:
    checks.check_nothing_is_seen(driver, far)


def test_topics_are_read(driver: Driver, far: Far) -> None:
    checks.check_topics(driver, far)


def test_logs_are_read_in_every_tier(driver: Driver, far: Far) -> None:
    checks.check_logs(driver, far)


@pytest.mark.slow
def test_objects_are_listed(driver: Driver, far: Far) -> None:
    checks.check_objects(driver, far)


@pytest.mark.parametrize("staging_bucket", [pytest.param("", marks=pytest.mark.slow), "stage"])
def test_messages_are_written_once(driver: Driver, far: Far, staging_bucket: str) -> None:
    checks.check_messages_are_written_once(driver, far, staging_bucket)


def test_a_stream_goes_from_topic_to_topic(driver: Driver, far: Far, tmp_path: Path) -> None:
    checks.check_a_stream_between_topics(driver, far, tmp_path / "checkpoint")


def test_tables_are_written_and_read(driver: Driver, far: Far) -> None:
    checks.check_tables(driver, far)


@pytest.mark.slow
def test_a_stream_goes_from_a_log_to_a_table(driver: Driver, far: Far, tmp_path: Path) -> None:
    checks.check_a_stream_to_a_table(driver, far, tmp_path / "checkpoint")


def test_topics_are_landed(driver: Driver, far: Far, tmp_path: Path) -> None:
    checks.check_land(driver, far, tmp_path / "checkpoint")


@pytest.mark.slow
def test_a_log_is_replayed(driver: Driver, far: Far) -> None:
    checks.check_replay(driver, far)


@pytest.mark.slow
def test_a_topic_goes_out_and_comes_in(driver: Driver, far: Far) -> None:
    checks.check_transfer(driver, far)


def test_all_of_it_is_verified(driver: Driver, far: Far) -> None:
    checks.check_verify(driver, far)


@pytest.mark.slow
def test_the_history_of_tiers_is_told(driver: Driver, far: Far) -> None:
    checks.check_tier_history(driver, far)


@pytest.mark.slow
def test_manifest_logs_and_all_views_of_objects_are_read(driver: Driver, far: Far) -> None:
    checks.check_manifest_logs(driver, far)
    checks.check_object_views(driver, far)
