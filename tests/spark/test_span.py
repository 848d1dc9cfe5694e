"""Ranges of messages: resolved against a store, without a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.base.errors import InputError, NotFound
from lakebed.host.store import Store
from lakebed.spark.backends import Backend, backend_of, backend_options
from lakebed.spark.jobs.span import Origin, Span, resolve
from tests.spark.feeds import writing
from tests.spark.messages import FIRST_MS, fill_special
from tests.spark.test_options import options

COUNT = 20


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Backend:
    root = tmp_path_factory.mktemp("span") / "root"
    fill_special(root, "orders", partitions=2, count=COUNT)
    with writing(root) as store:
        log = store.log("audit")
        for number in range(10):
            log.append_record_with_timeout(b"%d" % number, 10)
        log.flush()
    return Backend(path=str(root))


def ranges(backend: Backend, **given: object) -> dict[int, tuple[int | str, int | str]]:
    return dict(resolve(backend, Origin("orders"), Span(**given)).ranges)  # type: ignore[arg-type]


def test_everything_is_what_there_is_now(backend: Backend) -> None:
    found = resolve(backend, Origin("orders"), Span())
    assert found.ranges == {0: (0, COUNT), 1: (0, COUNT)}
    assert found.row_count == 2 * COUNT
    assert found.size_bytes > 0


def test_offsets_are_of_all_partitions_or_of_one(backend: Backend) -> None:
    assert ranges(backend, start={None: 5}, end={None: 8}) == {0: (5, 8), 1: (5, 8)}
    assert ranges(backend, start={None: 5, 1: 7}) == {0: (5, COUNT), 1: (7, COUNT)}


def test_offsets_that_are_not_there_yet_are_passed_over(backend: Backend) -> None:
    assert ranges(backend, start={None: 5}, end={None: 1000}) == {0: (5, COUNT), 1: (5, COUNT)}
    assert ranges(backend, start={None: 1000}) == {0: (COUNT, COUNT), 1: (COUNT, COUNT)}


def test_an_end_before_the_start_is_nothing(backend: Backend) -> None:
    found = resolve(backend, Origin("orders"), Span(start={None: 8}, end={None: 5}))
    assert found.row_count == found.size_bytes == 0


def test_other_partitions_are_left_out(backend: Backend) -> None:
    assert ranges(backend, partitions=(1,), start={None: 5}) == {0: (COUNT, COUNT), 1: (5, COUNT)}


def test_a_start_by_time_is_looked_up(backend: Backend) -> None:
    found = ranges(backend, time_start_us=(FIRST_MS + 10_000) * 1000)
    assert found[0] == (10, COUNT)
    assert ranges(backend, time_start_us=0) == {0: (0, COUNT), 1: (0, COUNT)}


def test_a_log_has_record_ids(backend: Backend) -> None:
    found = resolve(backend, Origin("audit", is_log=True), Span())
    start, end = found.ranges[0]
    told = found.options()
    assert told["log"] == "audit"
    assert json.loads(told["startingOffsets"]) == {"audit": {"0": start}}
    assert int(start) < int(end)
    later = resolve(backend, Origin("audit", is_log=True), Span(start={None: "0:100000"}))
    assert later.size_bytes == 0


@pytest.mark.parametrize("given", [{"partitions": (2,)}, {"start": {2: 1}}, {"end": {9: 1}}])
def test_a_partition_that_there_is_not_is_told(backend: Backend, given: dict[str, object]) -> None:
    with pytest.raises(NotFound, match=r"partition \d does not exist \(number of partitions: 2\)"):
        ranges(backend, **given)


def test_a_topic_that_there_is_not_is_told_with_those_that_there_are(backend: Backend) -> None:
    with pytest.raises(NotFound, match="no topic nope; existing topics: orders"):
        resolve(backend, Origin("nope"), Span())
    with pytest.raises(NotFound, match="existing logs: audit"):
        resolve(backend, Origin("nope", is_log=True), Span())


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(InputError, match="ends before it starts"):
        Span(time_start_us=2, time_end_us=1)


def test_a_place_is_the_same_after_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEBED_ACCESS_KEY", raising=False)
    monkeypatch.delenv("LAKEBED_SECRET_KEY", raising=False)
    whole = Backend(endpoint="https://h:1", access_key="a", secret_key="s", ca_file="/c")  # noqa: S106
    for one in (Backend(path="/data"), Backend(endpoint="http://k:s@h:1"), whole):
        assert backend_of(options(**backend_options(one))) == one
    assert backend_options(Backend(path="/data")) == {"path": "/data"}


def test_what_retention_removed_stays_asked_for(tmp_path: Path) -> None:
    """The read is to fail, rather than to leave it out."""
    fill_special(tmp_path, "t", partitions=1, count=10)
    with Store.open(tmp_path, serves=False) as store:
        store.topics.open("t").partition(0).truncate_before(5)
    backend = Backend(path=str(tmp_path))
    assert resolve(backend, Origin("t"), Span()).ranges == {0: (5, 10)}
    assert resolve(backend, Origin("t"), Span(start={None: 2})).ranges == {0: (2, 10)}
