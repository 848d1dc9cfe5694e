"""Queries and jobs over Spark Connect, with a server that cannot see the store's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark import far_checks as checks
from tests.spark.cluster import ConnectServer, Driver
from tests.spark.far_stores import Far, make_store, served
from tests.spark.hidden import HiddenFolder, hidden_folder

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(600)]


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
    folder = hidden.give(hidden.path.parent / "spark")
    with (
        ConnectServer(folder, prefix=hidden.command_prefix) as server,
        Driver(remote=server.url) as driver,
    ):
        yield driver


def test_the_server_cannot_see_the_store(driver: Driver, far: Far) -> None:
    checks.check_nothing_is_seen(driver, far)


def test_every_source_is_read(driver: Driver, far: Far) -> None:
    checks.check_topics(driver, far)
    checks.check_logs(driver, far)
    checks.check_objects(driver, far)


def test_messages_are_written_once(driver: Driver, far: Far) -> None:
    checks.check_messages_are_written_once(driver, far, "stage")


@pytest.mark.slow
def test_a_stream_goes_from_topic_to_topic(driver: Driver, far: Far, hidden: HiddenFolder) -> None:
    checks.check_a_stream_between_topics(driver, far, checkpoint(hidden, "streamed"))


@pytest.mark.slow
def test_tables_are_written_and_read(driver: Driver, far: Far) -> None:
    checks.check_tables(driver, far)


@pytest.mark.slow
def test_a_stream_goes_from_a_log_to_a_table(
    driver: Driver, far: Far, hidden: HiddenFolder
) -> None:
    checks.check_a_stream_to_a_table(driver, far, checkpoint(hidden, "table"))


def test_topics_are_landed(driver: Driver, far: Far, hidden: HiddenFolder) -> None:
    checks.check_land(driver, far, checkpoint(hidden, "landed"))


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


def checkpoint(hidden: HiddenFolder, name: str) -> Path:
    """The server writes it, which may be another user."""
    return hidden.give(hidden.path.parent / f"checkpoint-{name}")
