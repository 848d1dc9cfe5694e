"""Another codec of record batches, aiokafka's, reads what we write and writes what we read."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from lakebed.keratin.compression import Compression
from lakebed.keratin.headers import Producer
from lakebed.keratin.record_batch import (
    BatchAttributes,
    build,
    check,
    compression_of,
    decode,
    producer_of,
)
from tests.keratin.batch_samples import (
    FIRST_OFFSET,
    HEADERS,
    KEYS,
    PRODUCER,
    TIMESTAMPS_MS,
    VALUES,
    mixed,
)

pytestmark = pytest.mark.thorough

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

moments = st.integers(0, 1 << 45)
parts = st.one_of(st.none(), st.binary(max_size=100))
names = st.text(st.characters(codec="utf-8"), max_size=8)
header_lists = st.lists(st.tuples(names, parts), max_size=3)
row_lists = st.lists(st.tuples(moments, parts, parts, header_lists), min_size=1, max_size=12)


def theirs(
    rows: list[Row],
    compression: Compression,
    *,
    producer: Producer | None = None,
    is_transactional: bool = False,
) -> bytes:
    """What their builder makes of the messages."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(compression),
        is_transactional=is_transactional,
        producer_id=-1 if producer is None else producer.producer_id,
        producer_epoch=-1 if producer is None else producer.epoch,
        base_sequence=-1 if producer is None else producer.sequence,
        batch_size=1 << 20,
    )
    for index, (moment, key, value, headers) in enumerate(rows):
        builder.append(index, timestamp=moment, key=key, value=value, headers=headers)
    return bytes(builder.build())


def ours(rows: list[Row], compression: Compression, **named: Any) -> bytes:
    return build(
        [value for _, _, value, _ in rows],
        timestamps_ms=[moment for moment, _, _, _ in rows],
        keys=[key for _, key, _, _ in rows],
        headers=[headers for _, _, _, headers in rows],
        compression=compression,
        **named,
    )


def read_by_them(batch: bytes) -> list[tuple[int, Row]]:
    opened = DefaultRecordBatch(batch)
    assert opened.validate_crc()
    return [(one.offset, (one.timestamp, one.key, one.value, list(one.headers))) for one in opened]


def read_by_us(batch: bytes) -> list[tuple[int, Row]]:
    return [
        (one.offset, (one.timestamp_ms, one.key, one.value, list(one.headers)))
        for one in decode(batch)
    ]


@given(row_lists, st.sampled_from(Compression))
def test_they_read_what_we_write(rows: list[Row], compression: Compression) -> None:
    batch = ours(rows, compression, first_offset=FIRST_OFFSET)
    assert read_by_them(batch) == [(FIRST_OFFSET + index, row) for index, row in enumerate(rows)]


@given(row_lists, st.sampled_from(Compression))
def test_we_read_what_they_write(rows: list[Row], compression: Compression) -> None:
    batch = theirs(rows, compression)
    # They do not compress where that would not be smaller.
    assert compression_of(check(batch)) in (compression, Compression.NONE)
    assert read_by_us(batch) == list(enumerate(rows))


@given(row_lists)
def test_both_write_the_same_bytes(rows: list[Row]) -> None:
    written = theirs(rows, Compression.NONE, producer=PRODUCER)
    assert ours(rows, Compression.NONE, producer=PRODUCER) == written


@pytest.mark.parametrize("compression", Compression)
def test_large_batches_go_both_ways(compression: Compression) -> None:
    rows: list[Row] = [
        (1_700_000_000_000 + index, b"key %d" % index, b"value %d " % index * 20, [("n", b"v")])
        for index in range(2000)
    ]
    mine, other = ours(rows, compression), theirs(rows, compression)
    assert compression_of(check(other)) is compression
    assert read_by_them(mine) == read_by_us(other) == list(enumerate(rows))
    assert read_by_us(mine) == read_by_them(other)


@pytest.mark.parametrize("compression", Compression)
def test_nulls_headers_and_timestamps_that_go_back_are_the_same_for_both(
    compression: Compression,
) -> None:
    expected = list(zip(TIMESTAMPS_MS, KEYS, VALUES, HEADERS, strict=True))
    found = read_by_them(mixed(compression))
    assert found == [(FIRST_OFFSET + index, row) for index, row in enumerate(expected)]


def test_a_producers_fields_are_the_same_for_both() -> None:
    rows: list[Row] = [(5, None, b"v", [])]
    written = theirs(rows, Compression.NONE, producer=PRODUCER, is_transactional=True)
    header = check(written)
    assert producer_of(header) == PRODUCER
    assert header.attributes == BatchAttributes.TRANSACTIONAL
    mine = ours(rows, Compression.GZIP, producer=PRODUCER, attributes=BatchAttributes.TRANSACTIONAL)
    opened = DefaultRecordBatch(mine)
    assert opened.is_transactional
    assert not opened.is_control_batch
    assert (opened.producer_id, opened.producer_epoch, opened.base_sequence) == PRODUCER
    assert opened.next_offset == 1


def test_control_batches_and_log_append_time_are_the_same_for_both() -> None:
    rows: list[Row] = [(5, b"\0\0\0\1", b"\0\0\0\0\0\0", []), (9, b"\0\0\0\0", b"", [])]
    batch = ours(rows, Compression.ZSTD, attributes=BatchAttributes.CONTROL)
    assert DefaultRecordBatch(batch).is_control_batch
    batch = ours(rows, Compression.ZSTD, attributes=BatchAttributes.LOG_APPEND_TIME)
    assert DefaultRecordBatch(batch).timestamp_type == 1
    assert read_by_them(batch) == read_by_us(batch)
    assert [row[0] for _, row in read_by_us(batch)] == [9, 9]
