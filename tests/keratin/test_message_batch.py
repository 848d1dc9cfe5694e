"""Columns over records: what a batch of messages gives, and what it costs nothing to give."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, DataError
from lakebed.keratin.compression import Compression
from lakebed.keratin.damage import DamagePolicy
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Header, Producer, decode_headers, encode_headers
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch, key_of_block
from lakebed.keratin.record_batch import build
from lakebed.keratin.run import Run, run_of
from lakebed.keratin.run_decoder import batches_of
from lakebed.kernels import keratin_encode, keratin_scan
from tests.keratin.partitions import flipped

STRICT = DamagePolicy(skip=False)
HEADERS = [("name", b"value"), ("null", None)]


def _run(payloads: list[bytes], blocks: list[bytes], flags: list[int]) -> Run:
    data = keratin_encode(
        payloads,
        blocks,
        offsets=50,
        timestamps_ms=array("Q", range(len(payloads))),
        flags=array("H", flags),
        capacity=1 << 20,
    ).data
    scan = keratin_scan(data, 0, len(data), count_max=len(payloads))
    return run_of(scan, memoryview(data), 1000)


def _batches(run: Run, start: int = 0, end: int = 1 << 40) -> list[MessageBatch]:
    return list(batches_of(run, start=start, end=end, path="x.log", policy=STRICT))


def test_plain_records_are_one_batch_with_views_of_the_bytes() -> None:
    blocks = [b"", encode_headers(b"key", None), encode_headers(None, None, HEADERS)]
    (batch,) = _batches(_run([b"a", b"bb", b"ccc"], blocks, [0, 0, 0]))
    assert list(batch) == [
        Message(50, 0, None, b"a"),
        Message(51, 1, b"key", b"bb"),
        Message(52, 2, None, b"ccc", tuple(HEADERS)),
    ]
    assert batch.next_offset == 53
    views = [view for view in batch.values() if view is not None]
    keys = [view for view in batch.keys() if view is not None]  # noqa: SIM118 - not a mapping
    assert [bytes(view) for view in views] == [b"a", b"bb", b"ccc"]
    assert {id(view.obj) for view in (*views, *keys)} == {id(views[0].obj)}, "no copies"


KEYS = st.none() | st.binary(max_size=30) | st.builds(bytes, st.integers(0, 40))
PRODUCERS = st.none() | st.builds(
    Producer, st.integers(0, 1 << 40), st.integers(0, 9), st.integers(0, 1 << 30)
)
SOME_HEADERS = st.sampled_from(
    [(), (("", b""),), (("a", b"\0\0"),), (("b", None), ("c", bytes(9)))]
)


@given(st.lists(st.tuples(KEYS, PRODUCERS, SOME_HEADERS), min_size=1, max_size=5))
def test_every_kind_of_block_gives_the_key_and_the_headers_that_were_written(
    written: list[tuple[bytes | None, Producer | None, tuple[Header, ...]]],
) -> None:
    blocks = [encode_headers(*one) for one in written]
    (batch,) = _batches(_run([b"v"] * len(blocks), blocks, [0] * len(blocks)))
    expected = [
        Message(50 + index, index, key, b"v", headers)
        for index, (key, _, headers) in enumerate(written)
    ]
    assert list(batch) == expected
    assert [batch.message(index) for index in range(len(blocks))] == expected
    assert [key_of_block(block) for block in blocks] == [key for key, _, _ in written]
    views = [view and bytes(view) for view in batch.keys()]  # noqa: SIM118 - not a mapping
    assert views == [key for key, _, _ in written]


@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("producer", [None, Producer(1, 2, 3)])
def test_a_block_with_a_flipped_bit_is_read_as_it_is_decoded_or_refused_as_there(
    key: bytes | None, producer: Producer | None
) -> None:
    block = encode_headers(key, producer)
    for position in range(len(block)):
        for bit in range(8):
            damaged = flipped(block, position, bit)
            (batch,) = _batches(_run([b"v"], [damaged], [0]))
            try:
                expected = decode_headers(damaged)
            except DataError as error:
                with pytest.raises(type(error)):
                    list(batch)
                continue
            (message,) = batch
            assert (message.key, message.headers) == (expected.key, expected.headers)


def test_a_producer_in_the_block_is_no_header_of_the_message() -> None:
    block = encode_headers(b"key", Producer(1, 2, 3), HEADERS)
    (batch,) = _batches(_run([b"v"], [block], [0]))
    assert batch.message(0) == Message(50, 0, b"key", b"v", tuple(HEADERS))
    assert key_of_block(block) == b"key"
    assert key_of_block(encode_headers(None, Producer(1, 2, 3))) is None


@pytest.mark.parametrize("key", [b"", b"k", b"\x00\x00", b"\x01\x01\x00\x00", bytes(300)])
def test_a_key_alone_is_the_key_that_the_whole_block_tells(key: bytes) -> None:
    block = encode_headers(key, None)
    assert key_of_block(block) == key
    (batch,) = _batches(_run([b"v"], [block], [0]))
    assert batch.message(0).key == key


def test_control_records_are_left_out_and_batches_stand_alone() -> None:
    packed = build(
        [b"x", None], timestamps_ms=[7, 9], first_offset=53, compression=Compression.GZIP
    )
    control, batch_flag = int(RecordFlags.CONTROL), int(RecordFlags.BATCH)
    payloads = [b"a", b"mark", b"b", packed]
    run = _run(payloads, [b""] * 4, [0, control, int(RecordFlags.TOMBSTONE), batch_flag])
    batches = _batches(run)
    assert [[one.offset for one in batch] for batch in batches] == [[50], [52], [53, 54]]
    assert [one.value for batch in batches for one in batch] == [b"a", None, b"x", None]
    assert run.next_offset == 55
    part = batches[2].part(1, 2)
    assert list(part) == [Message(54, 9, None, None, (), int(RecordFlags.TOMBSTONE))]
    assert list(part.keys()) == list(part.values()) == [None]


@pytest.mark.parametrize(("start", "end"), [(0, 51), (51, 53), (52, 60), (50, 50), (90, 99)])
def test_only_the_messages_asked_for_are_given(start: int, end: int) -> None:
    run = _run([b"a", b"b", b"c", b"d"], [b""] * 4, [0] * 4)
    offsets = [one.offset for batch in _batches(run, start, end) for one in batch]
    assert offsets == [offset for offset in range(50, 54) if start <= offset < end]


def test_a_block_that_is_none_is_told_with_its_place() -> None:
    run = _run([b"a", b"b"], [b"", b"\x01\x01\x00\x00\x00\xffkey\x00\x00"], [0, 0])
    (batch,) = _batches(run)
    assert batch.message(0).value == b"a"
    with pytest.raises(Corrupt) as caught:
        batch.message(1)
    assert (caught.value.path, caught.value.offset) == ("x.log", run.origin + run.positions[1])
    assert [bytes(view or b"") for view in batch.values()] == [b"a", b"b"]
