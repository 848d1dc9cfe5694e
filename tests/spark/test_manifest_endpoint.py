"""`lakebed.manifest` over the HTTP API: rows and errors are those that the files give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.aof.manifest.chunk import PlacedRecord
from lakebed.api.problems import Unauthenticated
from lakebed.base.errors import Busy, LakebedError, NotFound
from lakebed.client.manifest_files import ManifestFiles
from lakebed.client.segment_range import SegmentRange
from lakebed.kernels.disk import real_disk
from lakebed.spark.sources.manifest import NAME, VIEWS, ManifestSource
from lakebed.store.manifest_logs import find_manifest_log
from tests.cli.manifest_stores import (
    CONFIG,
    OTHER_RECORDS,
    append_all,
    change,
    chunk_files,
    fill_chunks,
    flip,
    journal_of,
    snapshot_files,
    write_chunks,
    write_segment,
    write_segments,
)
from tests.http_api.live_api import HOST, LiveApi, open_api
from tests.http_api.test_guard import FIRST, guarding
from tests.spark.rows import collected, load, read, read_one, reader_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


@contextmanager
def live_api_of(folder: Path, **settings: Any) -> Iterator[LiveApi]:
    with open_api(folder, config=CONFIG, **settings) as live_api:
        yield live_api


def options_of(live_api: LiveApi) -> dict[str, object]:
    return {
        "endpoint": f"http://{HOST}:{live_api.port}",
        "accessKey": FIRST[0],
        "secretKey": FIRST[1],
    }


def by_path(live_api: LiveApi, **options: object) -> Any:
    return outcome(lambda: read_all(path=live_api.store.root, **options))


def by_endpoint(live_api: LiveApi, **options: object) -> Any:
    return outcome(lambda: read_all(**options_of(live_api), **options))


def read_all(**options: object) -> Rows:
    return read(reader_of(ManifestSource, **{"log": "orders", **options})[0])


def outcome(look: Callable[[], Rows]) -> Any:
    try:
        return look()
    except LakebedError as error:
        return type(error), str(error)


def records_of(root: Path) -> list[PlacedRecord]:
    return list(find_manifest_log_of(root).reader.records())


def find_manifest_log_of(root: Path) -> Any:
    return find_manifest_log(real_disk(), root, "orders")


def time_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def test_rows_are_the_same_as_of_any_moment(tmp_path: Path) -> None:
    """Of several chunks with records of every type, with snapshots between them."""
    root = tmp_path / "store"
    write_chunks(root, until=3, snapshot_at=2)
    append_all(root, OTHER_RECORDS)
    placed = records_of(root)
    moments: list[dict[str, object]] = [{}, {"asOf": "1980-01-01"}, {"asOf": "900:64"}]
    for number in (0, 1, len(placed) // 2, len(placed) - 2, len(placed) - 1, len(placed)):
        moments.append({"asOf": number})
    for one in (placed[0], placed[7], placed[-3]):
        moments.append({"asOf": str(one.position)})
        moments.append({"asOf": time_text(one.record.timestamp_ms)})
    with live_api_of(tmp_path) as live_api:
        for view in VIEWS:
            for moment in moments:
                found = by_endpoint(live_api, view=view, **moment)
                assert found == by_path(live_api, view=view, **moment), (view, moment)
        everything = by_endpoint(live_api)
        assert len(everything) == len(placed)
        assert {row["chunk_index"] for row in everything} == {0, 1, 2, 3}
        assert by_endpoint(live_api, view="state")
        some = by_endpoint(live_api, columns="problem,record,type")
        assert some == [{name: row[name] for name in some[0]} for row in everything]
        by_stream = by_endpoint(live_api, log=everything[0]["stream"])
        assert by_stream == everything


@pytest.mark.spark
def test_a_session_reads_them_in_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(ManifestSource)
    write_chunks(tmp_path / "store", until=4)
    with live_api_of(tmp_path, make_guard=guarding()) as live_api:
        frame = load(spark, NAME, log="orders", partitionBytes="32KiB", **options_of(live_api))
        assert frame.rdd.getNumPartitions() == 3
        found = sorted(collected(frame), key=lambda row: row["record"])
        assert found == by_path(live_api)
        state = load(spark, NAME, log="orders", view="state", **options_of(live_api))
        assert collected(state) == by_path(live_api, view="state")


def test_a_writer_beside_is_followed(tmp_path: Path) -> None:
    with live_api_of(tmp_path) as live_api:
        log = live_api.store.log("orders")
        counts = []
        for turn in range(4):
            write_segment(log)
            journal_of(log).commit()
            for view in VIEWS:
                assert by_endpoint(live_api, view=view) == by_path(live_api, view=view)
            counts.append(len(by_endpoint(live_api)))
            fill_chunks(log, until=turn)
            if turn == 2:
                journal_of(log).take_snapshot()
        assert counts == sorted(set(counts))


def test_history_that_is_gone_begins_with_a_snapshot(tmp_path: Path) -> None:
    root = tmp_path / "store"
    write_chunks(root, until=3, snapshot_at=2)
    for path in chunk_files(root)[:2]:
        path.unlink()
    with live_api_of(tmp_path) as live_api:
        for options in ({}, {"view": "state"}, {"view": "state", "asOf": 0}, {"asOf": "0:64"}):
            assert by_endpoint(live_api, **options) == by_path(live_api, **options)
        assert {row["chunk_index"] for row in by_endpoint(live_api)} == {2, 3}
        assert by_endpoint(live_api, view="state", asOf=0)[0] is NotFound


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit of a record": lambda root: flip(chunk_files(root)[1], 64 + 50),
    "a header": lambda root: flip(chunk_files(root)[1], 3),
    "a version": lambda root: change(chunk_files(root)[1], 8, b"\x63"),
    "cut": lambda root: chunk_files(root)[1].write_bytes(chunk_files(root)[1].read_bytes()[:900]),
    "empty": lambda root: chunk_files(root)[1].write_bytes(b""),
    "too long": lambda root: grow(chunk_files(root)[1]),
    "missing": lambda root: chunk_files(root)[1].unlink(),
    "the end": lambda root: flip(chunk_files(root)[-1], 64 + 50),
}


def grow(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate((64 << 20) + 1)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told_alike(tmp_path: Path, damage: str) -> None:
    root = tmp_path / "store"
    write_chunks(root, until=3)
    for path in snapshot_files(root):
        path.unlink()
    DAMAGES[damage](root)
    with live_api_of(tmp_path) as live_api:
        for view in VIEWS:
            failed = by_endpoint(live_api, view=view)
            assert failed == by_path(live_api, view=view)
            assert issubclass(failed[0], LakebedError), failed
            told = by_endpoint(live_api, view=view, onDamage="tell")
            assert told == by_path(live_api, view=view, onDamage="tell")
        rows = by_endpoint(live_api, onDamage="tell")
        assert any(row["problem"] for row in rows)
        assert any(row["problem"] is None for row in rows)


def test_damage_of_a_snapshot_is_passed_over_alike(tmp_path: Path) -> None:
    root = tmp_path / "store"
    write_chunks(root, until=3, snapshot_at=2)
    whole = None
    for path in reversed(snapshot_files(root)):
        flip(path, 70)
        with live_api_of(tmp_path) as live_api:
            found = by_endpoint(live_api, view="state")
            assert found == by_path(live_api, view="state")
            assert whole in (None, found)
            whole = found


def test_a_torn_end_is_no_damage(tmp_path: Path) -> None:
    root = tmp_path / "store"
    write_segments(root, 2)
    for path in snapshot_files(root):
        path.unlink()
    last = find_manifest_log_of(root).reader.chunk(0)
    change(chunk_files(root)[0], last.end - 8, b"\x77" * 4)
    with live_api_of(tmp_path) as live_api:
        for options in ({}, {"view": "state"}, {"onDamage": "tell"}):
            assert by_endpoint(live_api, **options) == by_path(live_api, **options)
        assert len(by_endpoint(live_api)) == len(last.records) - 1


def test_a_chunk_that_is_removed_before_it_is_read_is_missed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    write_chunks(root, until=2)
    with live_api_of(tmp_path) as live_api:
        options = {**options_of(live_api), "log": "orders"}
        reader, _ = reader_of(ManifestSource, **options)
        telling, _ = reader_of(ManifestSource, onDamage="tell", **options)
        (planned,), (told,) = reader.partitions(), telling.partitions()
        chunk_files(root)[0].unlink()
        with pytest.raises(Busy, match="it was removed before it was read"):
            read_one(reader, planned)
        assert read_one(telling, told)[0]["problem"] == "missing: missing"


def test_a_task_fetches_its_own_chunks_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    fetch = ManifestFiles.fetch

    def noting(self: ManifestFiles, name: str, *, offset: int, length: int) -> SegmentRange:
        fetched.append(name)
        return fetch(self, name, offset=offset, length=length)

    monkeypatch.setattr(ManifestFiles, "fetch", noting)
    root = tmp_path / "store"
    write_chunks(root, until=4)
    names = [path.name for path in chunk_files(root)]
    last = len(records_of(root)) - 1
    with live_api_of(tmp_path) as live_api:
        options = {**options_of(live_api), "log": "orders", "partitionBytes": "16KiB"}
        reader, _ = reader_of(ManifestSource, **options)
        partitions = reader.partitions()
        assert fetched == [], "sizes are listed"
        for name, partition in zip(names, partitions, strict=True):
            fetched.clear()
            assert read_one(reader, partition)
            assert fetched == [name]
        limited, _ = reader_of(ManifestSource, asOf=last, **options)
        *_, partition = limited.partitions()
        fetched.clear()
        read_one(limited, partition)
        assert fetched == names[-1:], "the record was looked for once, when the read was planned"


@pytest.mark.parametrize("view", VIEWS)
def test_a_log_of_which_nothing_is_recorded_has_no_rows(tmp_path: Path, view: str) -> None:
    with live_api_of(tmp_path) as live_api:
        live_api.store.log("orders")
        for options in ({}, {"asOf": 0}, {"asOf": "0:64"}, {"asOf": "2026-01-31"}):
            assert by_endpoint(live_api, view=view, **options) == []
            assert by_path(live_api, view=view, **options) == []
        missing = by_endpoint(live_api, view=view, log="payments")
        assert missing == by_path(live_api, view=view, log="payments")
        assert missing[0] is NotFound
        assert live_api.store.logs() == ["orders"]


def test_who_may_not_ask_is_told(tmp_path: Path) -> None:
    write_chunks(tmp_path / "store", until=1)
    with live_api_of(tmp_path, make_guard=guarding()) as live_api:
        assert by_endpoint(live_api) == by_path(live_api)
        for view in VIEWS:
            with pytest.raises(Unauthenticated):
                read_all(**{**options_of(live_api), "secretKey": "wrong"}, view=view)
