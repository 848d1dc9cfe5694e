"""`lakebed.manifest`: records and states against what the engine says, on a real session too."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.aof.manifest.chunk import PlacedRecord
from lakebed.aof.manifest.format import MANIFEST_ITSELF, SealSegment, SnapshotMarker
from lakebed.aof.manifest.records import (
    CustomEvent,
    ManifestRecord,
    Position,
    Unknown,
    UploadDone,
    UploadStarted,
)
from lakebed.aof.manifest.replay import Moment
from lakebed.aof.manifest.state import SegmentState
from lakebed.base.errors import BadConfig, Busy, Corrupt, NotFound
from lakebed.host.store import Store
from lakebed.kernels.disk import real_disk
from lakebed.spark.sources import manifest
from lakebed.spark.sources.manifest import NAME, VIEWS, ManifestSource
from lakebed.store.manifest_logs import ManifestLog, find_manifest_log
from lakebed.store.manifest_moments import state_as_of
from lakebed.store.manifest_survey import entries
from tests.aof.tiers.tiered_logs import write_segments as write_tiered
from tests.cli.manifest_stores import (
    CONFIG,
    OTHER_RECORDS,
    append_all,
    append_raw,
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
from tests.spark.rows import collected, load, read, read_one, reader_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

U64_MAX = (1 << 64) - 1
ODD_KEY = b"odd/\xff\x00key".decode("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that has been through all tiers, with records of every type. Not to be changed."""
    made = tmp_path_factory.mktemp("manifest") / "root"
    with Store.open(made, config=CONFIG) as store:
        log = store.log("orders")
        write_tiered(log, 4)
        log.tiers.upload([0, 1, 2])
        log.tiers.evict([0, 1], warm=True)
        log.tiers.hydrate([1])
        journal_of(log).take_snapshot()
        write_tiered(log, 1)
    append_all(made, OTHER_RECORDS, segment_id=3)
    append_all(made, [UploadStarted(ODD_KEY), UploadDone(ODD_KEY, '"e"'), CustomEvent(3, b"")])
    append_all(made, [SealSegment(U64_MAX, U64_MAX, U64_MAX, U64_MAX, 1)], segment_id=2)
    append_raw(made, ManifestRecord(Unknown(99, b"\0new"), 5, 6, now_ms(made), 3))
    return made


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(ManifestSource)
    return spark


def test_the_schemas_are_those_that_the_docstring_tells() -> None:
    blocks = re.findall(r"\n\n((?:    .*\n)+)", manifest.__doc__ or "")
    told = [" ".join(block.split()) for block in blocks if "spark.read" not in block]
    assert told == [fields.ddl() for fields in VIEWS.values()]


@pytest.mark.spark
def test_records_are_those_of_the_engine(session: SparkSession, root: Path) -> None:
    found = collected(load(session, NAME, path=root, log="orders"))
    check_records(found, root)
    assert {row["type"] for row in found} >= {type(one).__name__ for one in OTHER_RECORDS}
    (unknown,) = (row for row in found if row["type"] == "Unknown(99)")
    assert (unknown["data"], unknown["flags"], unknown["type_number"]) == (b"\0new", 3, 99)
    odd = [row["key"] for row in found if row["segment_id"] == 0 and row["type"] == "UploadDone"]
    assert odd[-1] == "odd/\\udcff\0key"
    assert any(row["segment_id"] is None for row in found), "the snapshot's marker"


@pytest.mark.spark
def test_the_state_is_that_of_the_engine_at_any_moment(session: SparkSession, root: Path) -> None:
    frame = load(session, NAME, path=root, log="orders", view="state")
    check_state(collected(frame), root, None)
    assert frame.where("in_tier2 and not in_tier0").count() == sum(
        state.residency & 4 > 0 and not state.residency & 1 for state in states(root, None)
    )
    placed = records_of(root)
    last = len(placed) - 1
    as_of = collected(load(session, NAME, path=root, log="orders", view="state", asOf=last // 2))
    check_state(as_of, root, Moment(position=placed[last // 2 + 1].position))


def test_the_state_as_of_each_record_each_place_and_each_time(root: Path) -> None:
    placed = records_of(root)
    for number, one in enumerate(placed):
        rows = state_rows(root, asOf=number)
        behind = placed[number + 1].position if number + 1 < len(placed) else end_of(root)
        check_state(rows, root, Moment(position=behind))
        assert all(row["as_of_record"] == number for row in rows)
        check_state(state_rows(root, asOf=str(one.position)), root, Moment(position=one.position))
        time_ms = one.record.timestamp_ms
        text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
        check_state(state_rows(root, asOf=text), root, Moment(timestamp_ms=time_ms))
    check_state(state_rows(root, asOf="2999-01-01T00:00:00Z"), root, None)


def test_records_go_up_to_the_moment_that_is_asked_for(root: Path) -> None:
    placed = records_of(root)
    everything = rows_of(root)
    assert rows_of(root, asOf=0) == everything[:1]
    assert rows_of(root, asOf=len(placed) - 1) == everything
    assert rows_of(root, asOf=str(placed[3].position)) == everything[:3]
    time_ms = placed[5].record.timestamp_ms
    text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    assert rows_of(root, asOf=text) == [row for row in everything if row["timestamp"] <= time_ms]
    assert rows_of(root, asOf="1980-01-01") == []


def test_moments_that_are_not_there_are_told(root: Path) -> None:
    count = len(records_of(root))
    for as_of, told in [
        (count, f"record {count} does not exist; the last record is {count - 1}"),
        ("0:65", "no record begins at 0:65"),
        ("900:64", "is after the end"),
        ("1980-01-01", "is before the history"),
    ]:
        with pytest.raises(NotFound, match=re.escape(told)):
            state_rows(root, asOf=as_of)


def test_history_that_is_gone_begins_with_a_snapshot(tmp_path: Path) -> None:
    write_chunks(tmp_path, until=3, snapshot_at=2)
    everything = rows_of(tmp_path)
    first, second, *_ = chunk_files(tmp_path)
    first.unlink()
    second.unlink()
    left = [row for row in everything if row["chunk_index"] >= 2]
    assert rows_of(tmp_path) == left
    assert left[0]["record"] == sum(row["chunk_index"] < 2 for row in everything)
    check_state(state_rows(tmp_path), tmp_path, None)
    with pytest.raises(NotFound, match="record 0 was removed; the history begins"):
        state_rows(tmp_path, asOf=0)


@pytest.mark.spark
def test_chunks_are_read_by_several_tasks_each_once(session: SparkSession, tmp_path: Path) -> None:
    write_chunks(tmp_path, until=4)
    options = {"path": tmp_path, "log": "orders", "partitionBytes": "32KiB"}
    reader, _ = reader_of(ManifestSource, **options)
    assert len(reader.partitions()) == 3
    check_records(read(reader), tmp_path)
    frame = load(session, NAME, **options)
    assert frame.rdd.getNumPartitions() == 3
    check_records(sorted(collected(frame), key=lambda row: row["record"]), tmp_path)


def test_some_columns_are_as_in_all(root: Path) -> None:
    for view, names in [("records", "problem,key,record,segment_id"), ("state", "is_doubtful,key")]:
        every = read(reader_of(ManifestSource, path=root, log="orders", view=view)[0])
        some, _ = reader_of(ManifestSource, path=root, log="orders", view=view, columns=names)
        assert read(some) == [{name: row[name] for name in names.split(",")} for row in every]


def test_damage_fails_the_query_or_is_told_at_its_place(tmp_path: Path) -> None:
    write_chunks(tmp_path, until=3)
    good = rows_of(tmp_path)
    flip(chunk_files(tmp_path)[1], 64 + 50)
    forget_snapshots(tmp_path)
    for view in VIEWS:
        with pytest.raises(Corrupt, match=r"0001\.mlog.*the chunk's checksum does not match"):
            read(reader_of(ManifestSource, path=tmp_path, log="orders", view=view)[0])
    rows = rows_of(tmp_path, onDamage="tell")
    (bad,) = (row for row in rows if row["problem"] is not None)
    assert bad["problem"].startswith("corrupt: the chunk's checksum")
    assert (bad["chunk_index"], bad["chunk_offset"]) == (1, 64)
    assert bad["type"] is bad["timestamp"] is bad["segment_id"] is bad["key"] is None
    kept = [row for row in rows if row is not bad]
    lost = [row for row in good if (row["chunk_index"], row["chunk_offset"]) == (1, 64)]
    numbers = [row["record"] for row in kept if row["chunk_index"] == 1]
    assert numbers == [None] * len(numbers), "how many are lost is not known"
    assert [row | {"record": 0} for row in kept] == [
        row | {"record": 0} for row in good if row not in lost
    ]
    told = state_rows(tmp_path, onDamage="tell")
    assert {row["segment_id"] for row in told if row["is_doubtful"]} == {0}
    assert not all(row["is_doubtful"] for row in told)


def test_a_chunk_that_is_missing_fails_the_query_or_is_told(tmp_path: Path) -> None:
    write_chunks(tmp_path, until=4)
    for path in chunk_files(tmp_path)[1:3]:
        path.unlink()
    forget_snapshots(tmp_path)
    for view in VIEWS:
        with pytest.raises(
            Corrupt,
            match=r"^[^:]*0001\.mlog: the chunk is missing, and so are those up to number 2",
        ):
            read(reader_of(ManifestSource, path=tmp_path, log="orders", view=view)[0])
    rows = rows_of(tmp_path, onDamage="tell")
    (bad,) = (row for row in rows if row["problem"] is not None)
    assert bad["problem"] == "missing: the chunk is missing, and so are those up to number 2"
    assert bad["chunk_index"] == 1
    assert all(row["is_doubtful"] for row in state_rows(tmp_path, onDamage="tell"))


def test_a_torn_end_is_no_damage(tmp_path: Path) -> None:
    write_segments(tmp_path, 2)
    (path,) = chunk_files(tmp_path)
    good = rows_of(tmp_path)
    forget_snapshots(tmp_path)
    change(path, end_of(tmp_path).offset - 8, b"\x77" * 4)  # in the last payload
    assert rows_of(tmp_path) == good[:-1]
    assert [row["problem"] is None for row in rows_of(tmp_path, onDamage="tell")] == [
        *[True] * (len(good) - 1), False,
    ]  # fmt: skip
    check_state(state_rows(tmp_path), tmp_path, None)


def test_damage_that_a_snapshot_is_behind_leaves_the_state_as_it_is(tmp_path: Path) -> None:
    write_chunks(tmp_path, until=3)
    expected = state_rows(tmp_path)
    flip(chunk_files(tmp_path)[1], 64 + 50)
    assert state_rows(tmp_path) == expected


def test_a_chunk_that_is_removed_before_it_is_read_is_missed(tmp_path: Path) -> None:
    write_chunks(tmp_path, until=2)
    reader, _ = reader_of(ManifestSource, path=tmp_path, log="orders")
    telling, _ = reader_of(ManifestSource, path=tmp_path, log="orders", onDamage="tell")
    (planned,), (told,) = reader.partitions(), telling.partitions()
    chunk_files(tmp_path)[0].unlink()
    with pytest.raises(Busy, match="the chunk was removed before it was read"):
        read_one(reader, planned)
    assert read_one(telling, told)[0]["problem"] == "missing: the chunk is missing"


@pytest.mark.parametrize("view", VIEWS)
def test_a_log_of_which_nothing_is_recorded_has_no_rows(tmp_path: Path, view: str) -> None:
    with Store.open(tmp_path, config=CONFIG) as store:
        store.log("orders")
    assert read(reader_of(ManifestSource, path=tmp_path, log="orders", view=view)[0]) == []
    with pytest.raises(NotFound, match="there is no log payments"):
        read(reader_of(ManifestSource, path=tmp_path, log="payments", view=view)[0])


def test_a_writer_beside_is_followed_up_to_what_it_committed(tmp_path: Path) -> None:
    with Store.open(tmp_path, config=CONFIG) as store:
        log = store.log("orders")
        counts = []
        for turn in range(4):
            write_segment(log)
            journal_of(log).commit()
            check_records(rows_of(tmp_path), tmp_path)
            check_state(state_rows(tmp_path), tmp_path, None)
            counts.append(len(rows_of(tmp_path)))
            fill_chunks(log, until=turn)
        assert counts == sorted(set(counts))


def test_it_is_found_by_its_stream(root: Path) -> None:
    (first, *_) = rows_of(root)
    reader, _ = reader_of(ManifestSource, path=root, log=first["stream"])
    assert read(reader)[0] == first


def test_options_that_are_wrong_are_told() -> None:
    for options, told in [
        ({"view": "segments"}, "one of records, state"),
        (
            {"asOf": "yesterday"},
            "a time such as 2026-01-31T12:00:00Z, a record number, or a position",
        ),
        ({"asOf": ":5"}, "the option asOf"),
        ({"columns": "name"}, "column 'name' does not exist"),
        ({"chunk": "1"}, "unknown option"),
    ]:
        with pytest.raises(BadConfig, match=re.escape(told)):
            reader_of(ManifestSource, path="/nowhere", log="orders", **options)
    with pytest.raises(BadConfig, match="the option log is missing"):
        reader_of(ManifestSource, path="/nowhere")
    with pytest.raises(BadConfig, match="path or endpoint"):
        reader_of(ManifestSource, path="/nowhere", endpoint="http://127.0.0.1:1", log="orders")


# What the engine says.


def found_in(root: Path) -> ManifestLog:
    return find_manifest_log(real_disk(), root, "orders")


def records_of(root: Path) -> list[PlacedRecord]:
    return list(found_in(root).reader.records())


def end_of(root: Path) -> Position:
    return state_as_of(found_in(root).reader, None).end


def now_ms(root: Path) -> int:
    return state_as_of(found_in(root).reader, None).index.last_timestamp_ms


def states(root: Path, moment: Moment | None) -> list[SegmentState]:
    return list(state_as_of(found_in(root).reader, moment).index.segments())


def rows_of(root: Path, **options: object) -> list[dict[str, Any]]:
    return read(reader_of(ManifestSource, path=root, log="orders", **options)[0])


def state_rows(root: Path, **options: object) -> list[dict[str, Any]]:
    return rows_of(root, view="state", **options)


def check_records(rows: list[dict[str, Any]], root: Path) -> None:
    placed = [one for one in entries(found_in(root).reader) if isinstance(one, PlacedRecord)]
    assert len(rows) == len(placed)
    stream = found_in(root).stream
    first = rows[0]["record"]
    for number, (row, (position, record)) in enumerate(zip(rows, placed, strict=True)):
        assert (row["log"], row["stream"], row["problem"]) == ("orders", stream, None)
        assert (row["chunk_index"], row["chunk_offset"]) == position
        assert row["record"] == first + number
        assert row["timestamp"] == record.timestamp_ms
        is_itself = record.segment_id == MANIFEST_ITSELF
        assert row["segment_id"] == (None if is_itself else record.segment_id)
        assert row["logical_offset"] == signed(record.logical_offset)
        assert (row["type"], row["type_number"]) == (record.type_name, record.type_number)
        assert row["flags"] == record.flags
        expected = payload_of(record)
        assert {name: row[name] for name in PAYLOAD} == dict.fromkeys(PAYLOAD) | expected


PAYLOAD = VIEWS["records"].names[VIEWS["records"].names.index("base_offset") : -1]


def payload_of(record: ManifestRecord) -> dict[str, object]:
    payload = record.payload
    if isinstance(payload, Unknown):
        return {"data": payload.data}
    if isinstance(payload, CustomEvent):
        return {"schema_id": payload.schema_id, "data": payload.blob}
    if isinstance(payload, SnapshotMarker):
        return {
            "marker_chunk_index": payload.chunk_index,
            "marker_chunk_offset": payload.chunk_offset,
            "snapshot_id": payload.snapshot_id,
        }
    return {
        name: spelled(value) if isinstance(value, str) else signed(value)
        for name, value in payload._asdict().items()
    }


def check_state(rows: list[dict[str, Any]], root: Path, moment: Moment | None) -> None:
    expected = states(root, moment)
    assert [row["segment_id"] for row in rows] == [state.segment_id for state in expected]
    for row, state in zip(rows, expected, strict=True):
        assert row["is_doubtful"] is False
        for name, value in state._asdict().items():
            if name.endswith("_at_ms"):
                assert row[name.removesuffix("_ms")] == (value or None)
            elif isinstance(value, str):
                assert row[name] == (spelled(value) or None)
            else:
                assert row[name] == signed(value), name
        tiers = [row[f"in_tier{tier}"] for tier in range(3)]
        assert tiers == [bool(state.residency & 1 << tier) for tier in range(3)]
        assert row["is_sealed"] == state.is_sealed
        assert row["is_opened"] == state.is_opened
        assert row["needs_repair"] == state.needs_repair
        assert row["is_deleting"] == bool(state.pending & 8)
        assert row["upload_failed"] == bool(state.failures & 2)


def forget_snapshots(root: Path) -> None:
    """So that all chunks are needed."""
    for path in snapshot_files(root):
        path.unlink()


def signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def spelled(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
