"""What the producers' kernel finds in records: both implementations, and that they agree."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import InputError
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import SEQUENCE_COUNT, Producer, encode_headers
from lakebed.keratin.record_batch import build
from lakebed.kernels.results import KeratinProducers
from tests.kernels.samples import Kernels, assert_same, keratin_data, load_compiled, quick
from tests.kernels.test_columns_agreement import buffers, columns, counts

BATCH = int(RecordFlags.BATCH)


def found_in(
    kernels: Kernels, records: Sequence[tuple[int, bytes, bytes | None]], *, base: int = 100
) -> list[tuple[int, int, int, int, int]]:
    """Rows of (producer, epoch, first sequence, count, base offset), of flags, payload, block."""
    data = keratin_data([one for _, one, _ in records], [block for _, _, block in records])
    scan = kernels.keratin_scan(data, 0, len(data), count_max=len(records))
    assert len(scan.positions) == len(records)
    offsets = array("Q")
    for flags, payload, _ in records:
        offsets.append(base)
        base += 1 if not flags & BATCH else int.from_bytes(payload[57:61], "big")
    found: KeratinProducers = kernels.keratin_producers(
        data,
        scan.positions,
        offsets,
        array("H", [flags for flags, _, _ in records]),
        scan.header_lengths,
        scan.payload_lengths,
    )
    rows = zip(
        found.producer_ids,
        found.epochs,
        found.first_sequences,
        found.message_counts,
        found.base_offsets,
        strict=True,
    )
    return list(rows)


def plain(
    sequence: int, *, producer_id: int = 7, key: bytes | None = None
) -> tuple[int, bytes, bytes]:
    return 0, b"payload", encode_headers(key, Producer(producer_id, 3, sequence), ())


def batch(sequence: int, count: int) -> tuple[int, bytes, None]:
    values = [b"value"] * count
    return BATCH, build(values, timestamps_ms=1, producer=Producer(7, 3, sequence)), None


def test_messages_that_follow_one_another_are_one_run(kernels: Kernels) -> None:
    records = [plain(5), plain(6, key=b"key"), plain(7)]
    assert found_in(kernels, records) == [(7, 3, 5, 3, 100)]


def test_a_gap_or_another_producer_begins_a_run(kernels: Kernels) -> None:
    records = [plain(5), plain(9), plain(10, producer_id=8), plain(10)]
    assert found_in(kernels, records) == [
        (7, 3, 5, 1, 100), (7, 3, 9, 1, 101), (8, 3, 10, 1, 102), (7, 3, 10, 1, 103)
    ]  # fmt: skip


def test_records_without_a_producer_are_passed_over(kernels: Kernels) -> None:
    keyed = encode_headers(b"key", None, ())
    records: Sequence[tuple[int, bytes, bytes | None]] = [
        (0, b"payload", None), (0, b"payload", keyed), plain(0), (0, b"payload", None), plain(1)
    ]  # fmt: skip
    assert found_in(kernels, records) == [(7, 3, 0, 1, 102), (7, 3, 1, 1, 104)]


def test_batches_count_all_their_messages(kernels: Kernels) -> None:
    records: Sequence[tuple[int, bytes, bytes | None]] = [batch(0, 4), plain(4), batch(5, 2)]
    assert found_in(kernels, records) == [(7, 3, 0, 7, 100)]


def test_sequences_start_over(kernels: Kernels) -> None:
    records = [plain(SEQUENCE_COUNT - 1), plain(0)]
    assert found_in(kernels, records) == [(7, 3, SEQUENCE_COUNT - 1, 2, 100)]


@pytest.mark.parametrize("size", range(1, 16))
def test_a_block_that_is_cut_names_no_producer(kernels: Kernels, size: int) -> None:
    block = encode_headers(None, Producer(7, 3, 5), ())[:size]
    assert found_in(kernels, [(0, b"payload", block)]) == []


def test_a_batch_that_is_none_names_no_producer(kernels: Kernels) -> None:
    whole = batch(0, 1)[1]
    data = keratin_data([whole[:60], whole[:16] + b"\1" + whole[17:]], None)
    scan = kernels.keratin_scan(data, 0, len(data), count_max=2)
    found = kernels.keratin_producers(
        data,
        scan.positions,
        scan.offsets,
        array("H", [BATCH, BATCH]),
        scan.header_lengths,
        scan.payload_lengths,
    )
    assert len(found.producer_ids) == 0


def test_records_outside_the_buffer_are_refused(kernels: Kernels) -> None:
    wide, narrow = array("Q", [0]), array("I", [0])
    with pytest.raises(InputError):
        kernels.keratin_producers(bytes(35), wide, wide, array("H", [0]), narrow, narrow)


@pytest.mark.thorough
@quick
@given(st.data(), buffers, counts)
def test_producers_agree_on_random_numbers(data: st.DataObject, buffer: bytes, count: int) -> None:
    parts = [data.draw(columns(code, count)) for code in "QQHII"]
    assert_same("keratin_producers", buffer, *parts)


near_sequences = st.sampled_from([0, 1, 2, SEQUENCE_COUNT - 1, SEQUENCE_COUNT])
blocks = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.builds(
        encode_headers,
        st.one_of(st.none(), st.binary(max_size=9)),
        st.builds(Producer, st.integers(1, 2), st.just(2), near_sequences),
        st.just(()),
    ),
)
payloads = st.one_of(
    st.binary(max_size=80),
    st.builds(
        lambda count, sequence: batch(sequence, count)[1],
        st.integers(1, 3),
        st.sampled_from([0, 1, 2, SEQUENCE_COUNT - 1]),
    ),
)


@pytest.mark.thorough
@quick
@given(st.data(), st.lists(st.tuples(payloads, blocks), max_size=8))
def test_producers_agree_on_records(
    data: st.DataObject, records: list[tuple[bytes, bytes | None]]
) -> None:
    written = keratin_data([one for one, _ in records], [block for _, block in records])
    scan = load_compiled().keratin_scan(written, 0, len(written), count_max=99)
    flags = array("H", [data.draw(st.sampled_from([0, BATCH])) for _ in records])
    lengths = (scan.header_lengths, scan.payload_lengths)
    assert_same("keratin_producers", written, scan.positions, scan.offsets, flags, *lengths)
    changed = bytearray(written)
    for _ in range(data.draw(st.integers(1, 3)) if written else 0):
        changed[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    assert_same("keratin_producers", changed, scan.positions, scan.offsets, flags, *lengths)
