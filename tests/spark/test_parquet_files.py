"""Places of Parquet files: what is found, written and refused; without a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from lakebed.base.errors import AlreadyExists, Corrupt, InputError, NotFound
from lakebed.spark.arrow.messages import FIELDS
from lakebed.spark.jobs import parquet_files, transfer
from lakebed.spark.jobs.parquet_files import FilesLocation, FoundFile, read_batches, write_file
from lakebed.spark.jobs.transfer import FilePiece, conformed, cut, importable_columns

SCHEMA = pa.schema({"value": pa.int64()})


def batches(*numbers: int) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        yield pa.RecordBatch.from_pydict({"value": [number]}, SCHEMA)


def values(place: FilesLocation, path: str, part: int, part_count: int) -> list[int]:
    found = read_batches(
        place, path, part=part, part_count=part_count, columns_of=lambda schema: schema.names
    )
    return [value for batch in found for value in batch.column(0).to_pylist()]


@pytest.fixture
def place(tmp_path: Path) -> FilesLocation:
    place = FilesLocation(folder=str(tmp_path / "files"))
    place.prepare(overwrite=False)
    return place


def test_a_file_appears_when_it_is_whole(place: FilesLocation) -> None:
    def dying() -> Iterator[pa.RecordBatch]:
        yield from batches(1)
        assert [one.name for one in Path(place.folder).iterdir()] == []
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_file(place, 0, dying(), SCHEMA, compression="zstd")
    assert place.list_files() == []
    assert write_file(place, 0, iter(()), SCHEMA, compression="zstd") is None
    written = write_file(place, 7, batches(1, 2), SCHEMA, compression="zstd")
    assert written is not None
    assert (Path(written.path).name, written.row_count) == ("part-00007.parquet", 2)
    assert place.list_files() == [FoundFile(written.path, written.size_bytes)]


def test_a_writer_that_dies_late_leaves_nothing(
    place: FilesLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 1)

    def dying() -> Iterator[pa.RecordBatch]:
        yield from batches(1, 2, 3)
        [one] = Path(place.folder).iterdir()
        assert one.name.endswith(".tmp"), "nobody takes it for a whole one"
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_file(place, 0, dying(), SCHEMA, compression="zstd")
    assert place.list_files() == []


def test_the_parts_of_a_file_are_all_of_it_in_order(
    place: FilesLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 1)
    written = write_file(place, 0, batches(*range(7)), SCHEMA, compression="none")
    assert written is not None
    for count in (1, 2, 3, 7, 10):
        found = [values(place, written.path, part, count) for part in range(count)]
        assert [value for part in found for value in part] == [*range(7)]


def test_a_place_with_something_in_it_is_left_alone(place: FilesLocation) -> None:
    write_file(place, 0, batches(1), SCHEMA, compression="zstd")
    with pytest.raises(AlreadyExists, match=r"already has files, such as .*part-00000"):
        place.prepare(overwrite=False)
    theirs = Path(place.folder) / "important.parquet"
    theirs.write_bytes(b"")
    with pytest.raises(
        AlreadyExists, match=r"important.parquet is not a file of an earlier export"
    ):
        place.prepare(overwrite=True)
    assert len(place.list_files()) == 2
    theirs.unlink()
    left = Path(place.folder) / f"part-00001.parquet.{'0' * 32}.tmp"
    left.write_bytes(b"of a killed worker")
    place.mark_whole()
    place.prepare(overwrite=True)
    assert place.list_files() == []


def test_what_is_not_there_is_told(place: FilesLocation, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file or folder"):
        FilesLocation(folder=str(tmp_path / "nope")).list_files()
    (Path(place.folder) / "notes.txt").write_bytes(b"")
    with pytest.raises(NotFound, match=r"no file name ends with .parquet"):
        parquet_files.parquet_files(place)


def test_the_files_of_more_than_100_000_tasks_are_listed_in_order(place: FilesLocation) -> None:
    for number in (100_000, 99_999, 7):
        write_file(place, number, batches(number), SCHEMA, compression="zstd")
    names = [Path(file.path).name for file in parquet_files.parquet_files(place)]
    assert names == ["part-00007.parquet", "part-99999.parquet", "part-100000.parquet"]


def test_one_file_is_a_place_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    parquet.write_table(pa.table({"value": [1]}), path)
    place = FilesLocation(folder=str(path))
    assert parquet_files.parquet_files(place) == [FoundFile(str(path), path.stat().st_size)]


def test_what_is_no_parquet_is_damage_with_its_name(place: FilesLocation) -> None:
    path = Path(place.folder) / "a.parquet"
    path.write_bytes(b"PAR1 or not")
    with pytest.raises(Corrupt, match=r"a\.parquet: not a valid Parquet file"):
        parquet_files.schema_of(place, str(path))
    with pytest.raises(Corrupt, match=r"a\.parquet: not a valid Parquet file"):
        values(place, str(path), 0, 1)


def test_small_files_share_a_task_and_large_ones_are_cut() -> None:
    sizes = {"a": 10, "b": 10, "c": 95, "d": 250, "e": 0, "f": 100}
    found = cut([FoundFile(path, size) for path, size in sizes.items()], piece_bytes=100)
    assert found == [
        (FilePiece("a", 0, 1), FilePiece("b", 0, 1)),
        (FilePiece("c", 0, 1),),
        (FilePiece("d", 0, 3),),
        (FilePiece("d", 1, 3),),
        (FilePiece("d", 2, 3),),
        (FilePiece("e", 0, 1), FilePiece("f", 0, 1)),
    ]


def test_columns_are_those_of_messages() -> None:
    schema = pa.schema({"offset": pa.int64(), "value": pa.binary(), "key": pa.string()})
    assert importable_columns(schema, "p") == ("key", "value")
    with pytest.raises(InputError, match="p: the column 'price' cannot be imported"):
        importable_columns(schema.append(pa.field("price", pa.int64())), "p")
    with pytest.raises(
        InputError, match="p: the file has no column 'value', which an import needs"
    ):
        importable_columns(schema.remove(1), "p")


def test_rows_that_do_not_fit_are_told_with_file_and_column() -> None:
    schema = pa.schema({"value": pa.binary(), "partition": pa.int32()})
    rows = pa.RecordBatch.from_pydict({"value": ["a"], "partition": [1]})
    assert conformed(rows, schema, "p").schema == schema
    wrong = pa.RecordBatch.from_pydict({"value": [[1]], "partition": [1]})
    with pytest.raises(InputError, match="p: the column 'value' cannot be imported: "):
        conformed(wrong, schema, "p")
    far = pa.RecordBatch.from_pydict({"value": ["a"], "partition": [1 << 40]})
    with pytest.raises(InputError, match="p: the column 'partition' cannot be imported: "):
        conformed(far, schema, "p")


def test_a_time_is_one_and_within_what_spark_has() -> None:
    schema = FIELDS.schema(("timestamp",))
    fine = pa.RecordBatch.from_pydict({"timestamp": pa.array([1_999_999], pa.timestamp("ns"))})
    assert conformed(fine, schema, "p").column(0).cast(pa.int64()).to_pylist() == [1999]
    number = pa.array([1_700_000_000_000], pa.int64())  # milliseconds, or what?
    for column in (number, pa.array([1 << 60], pa.timestamp("ms", tz="UTC"))):
        with pytest.raises(InputError, match="p: the column 'timestamp' cannot be imported: "):
            conformed(pa.RecordBatch.from_pydict({"timestamp": column}), schema, "p")


def test_files_of_one_import_have_the_same_columns(place: FilesLocation) -> None:
    for name, table in (("a", {"value": ["1"]}), ("b", {"value": ["2"], "key": ["k"]})):
        parquet.write_table(pa.table(table), Path(place.folder) / f"{name}.parquet")
    pieces = cut(parquet_files.parquet_files(place), piece_bytes=1 << 20)
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    with pytest.raises(
        InputError, match=r"b\.parquet: all files must have the same columns; these differ: key"
    ):
        list(transfer._read_rows(place, pieces, ("value",), iter([numbers])))
    with pytest.raises(
        InputError, match=r"a\.parquet: all files must have the same columns; these differ: key"
    ):
        list(transfer._read_rows(place, pieces, ("key", "value"), iter([numbers])))
