"""Arrow batches have the rows that reading an append-only log gives."""

from __future__ import annotations

from array import array
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import InputError
from lakebed.kernels import aof_encode, aof_scan
from lakebed.kernels.format import AOF_RECORD
from lakebed.spark.arrow import records
from tests.spark.arrow.batch_runs import EPOCH

STAMP_NS = 1_700_000_000_123_456_789


def batch_of(
    payloads: list[bytes],
    *,
    segment: int = 3,
    buffer_offset: int = 0,
    timestamps: list[int] | None = None,
    ext_ids: list[int] | None = None,
    ids: list[int] | None = None,
) -> RecordBatch:
    """As the reader gives it: of a map of the file, or of a part of it that was read."""
    data = aof_encode(
        payloads,
        timestamps=array("Q", timestamps or [STAMP_NS] * len(payloads)),
        ext_ids=array("Q", ext_ids or range(len(payloads))),
        capacity=1 << 30,
    ).data
    scan = aof_scan(data, 0, len(data), count_max=len(payloads))
    return RecordBatch(
        segment_id=segment,
        base_offset=0,
        buffer=memoryview(data),
        buffer_offset=buffer_offset,
        header_bytes=AOF_RECORD.size,
        offsets=scan.offsets,
        lengths=scan.lengths,
        timestamps=scan.timestamps,
        ext_ids=scan.ext_ids,
        end=RecordId.from_parts(segment, buffer_offset + len(data)),
        ids=None if ids is None else memoryview(array("Q", ids)),
    )


def signed(value: int, bits: int = 64) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def row(record: Record) -> dict[str, Any]:
    return {
        "log": "events",
        "record_id": signed(int(record.record_id)),
        "segment": signed(record.record_id.segment_index, 32),
        "timestamp": EPOCH + timedelta(microseconds=record.timestamp // 1000),
        "timestamp_ns": signed(record.timestamp),
        "ext_id": signed(record.ext_id),
        "payload": record.payload,
    }


def assert_same_rows(batch: RecordBatch) -> None:
    found = records.record_batch(batch, log="events")
    found.validate(full=True)
    assert found.to_pylist() == [row(record) for record in batch]


def test_records_are_rows() -> None:
    assert_same_rows(batch_of([b"a", b"payload" * 99, b"\0"]))


def test_record_ids_are_those_of_the_file_wherever_the_buffer_begins() -> None:
    batch = batch_of([b"a", b"b"], buffer_offset=4096, segment=5)
    assert_same_rows(batch)
    found = records.record_batch(batch, log="events")
    assert found["record_id"].to_pylist() == [(5 << 32) + 4096, (5 << 32) + 4096 + 32]
    assert_same_rows(batch_of([b"a", b"b"], buffer_offset=4096, ids=[64, 1 << 31]))


def test_numbers_without_a_sign_become_those_of_the_same_bits() -> None:
    largest = (1 << 64) - 1
    batch = batch_of([b"a"], segment=(1 << 32) - 1, timestamps=[1 << 63], ext_ids=[largest])
    found = records.record_batch(
        batch, log="events", columns=["record_id", "segment", "timestamp_ns", "ext_id", "timestamp"]
    )
    assert found["ext_id"].to_pylist() == [-1]
    assert found["segment"].to_pylist() == [-1]
    assert found["record_id"].to_pylist() == [-(1 << 32)]
    assert found["timestamp_ns"].to_pylist() == [-(1 << 63)]
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [(1 << 63) // 1000]


def test_only_the_columns_that_are_asked_for_come_and_in_that_order() -> None:
    batch = batch_of([b"a", b"b"])
    for columns in (["payload"], ["ext_id", "log"], ["timestamp_ns", "timestamp"]):
        found = records.record_batch(batch, log="events", columns=columns)
        assert found.schema == records.FIELDS.schema(columns)
        assert found.to_pylist() == [
            {name: row(record)[name] for name in columns} for record in batch
        ]
    with pytest.raises(InputError, match="there is no column 'value'"):
        records.record_batch(batch, log="events", columns=["value"])


def test_long_batches_are_cut() -> None:
    batches = [batch_of([b"%d" % number for number in range(count)]) for count in (25, 3, 10)]
    found = list(records.record_batches(batches, log="events", rows_max=10))
    assert [one.num_rows for one in found] == [9, 9, 7, 3, 10]
    wanted = [row(record) for batch in batches for record in batch]
    assert [one for batch in found for one in batch.to_pylist()] == wanted


def test_numbers_are_not_copied() -> None:
    batch = batch_of([b"a", b"b"])
    found = records.record_batch(batch, log="events")
    for name, column in (("ext_id", batch.ext_ids), ("timestamp_ns", batch.timestamps)):
        assert found[name].buffers()[1].address == pa.py_buffer(column).address


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=300),
            st.integers(0, 1 << 60),
            st.integers(0, (1 << 64) - 1),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, 1 << 30),
    st.data(),
)
def test_any_batch_gives_the_rows_that_reading_it_gives(
    rows: list[tuple[bytes, int, int]], segment: int, buffer_offset: int, data: st.DataObject
) -> None:
    payloads, timestamps, ext_ids = map(list, zip(*rows, strict=True))
    batch = batch_of(
        payloads,
        segment=segment,
        buffer_offset=buffer_offset,
        timestamps=timestamps,
        ext_ids=ext_ids,
    )
    assert_same_rows(batch)
    first = data.draw(st.integers(0, len(rows) - 1))
    assert_same_rows(batch.part(first, data.draw(st.integers(first + 1, len(rows)))))
