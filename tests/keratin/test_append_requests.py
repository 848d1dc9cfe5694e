"""What a caller may hand in, and that nothing wrong about it gets any further."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import InputError, TooLarge
from lakebed.keratin.append_requests import build_append, build_batch_append
from lakebed.keratin.config import Ack
from lakebed.keratin.format import RECORD_OVERHEAD, RecordFlags
from lakebed.keratin.headers import Producer, decode_headers
from lakebed.keratin.record_batch import build
from lakebed.keratin.writer_requests import Append
from tests.keratin.partitions import flipped, small

CONFIG = small()


def request(payloads: Any, **given: Any) -> Append:
    given = {"ack": Ack.AFTER_FSYNC, "timestamps_ms": 1000, **given}
    return build_append(payloads, config=CONFIG, **given)


def test_plain_payloads_have_no_headers_and_no_flags() -> None:
    append = request([b"one", b"", b"three"])
    assert list(append.payloads) == [b"one", b"", b"three"]
    assert append.headers is None
    assert append.flags == 0
    assert append.message_count == 3
    assert append.size == 8 + 3 * RECORD_OVERHEAD
    assert not append.is_batch


def test_keys_producers_and_headers_stand_in_the_blocks() -> None:
    producer = Producer(7, 1, (1 << 31) - 1)
    append = request(
        [b"one", b"two"], keys=[b"key", None], producer=producer, headers=[[], [("name", b"v")]]
    )
    assert append.headers is not None
    blocks = [decode_headers(block or b"") for block in append.headers]
    assert blocks[0] == (b"key", producer, ())
    assert blocks[1] == (None, Producer(7, 1, 0), (("name", b"v"),)), "sequences start over"
    assert append.producer == producer
    assert append.size == sum(map(len, append.headers)) + 6 + 2 * RECORD_OVERHEAD  # type: ignore[arg-type]


def test_none_deletes_its_key() -> None:
    append = request([b"one", None, b""], keys=[b"a", b"b", b"c"])
    assert list(append.payloads) == [b"one", b"", b""]
    assert append.flags == [0, RecordFlags.TOMBSTONE, 0]


def test_an_iterator_is_read_once_and_loses_no_tombstone() -> None:
    append = request(iter([b"one", None]), keys=iter([b"a", b"b"]), timestamps_ms=iter([5, 6]))
    assert append.flags == [0, RecordFlags.TOMBSTONE]
    assert list(append.timestamps_ms) == [5, 6]  # type: ignore[arg-type]
    named = request([b"one"], headers=iter([iter([("name", b"value")])]))
    assert decode_headers(named.headers[0] or b"").headers == (("name", b"value"),)  # type: ignore[index]


def test_a_schedule_is_a_header_and_a_flag() -> None:
    append = request([b"one", b"two"], not_before_ms=1_800_000_000_000)
    expected = ("lakebed-not-before-ms", b"1800000000000")
    assert append.flags == [RecordFlags.SCHEDULED] * 2
    assert decode_headers(append.headers[1] or b"").headers == (expected,)  # type: ignore[index]
    by_hand = request([b"one", b"two"], headers=[[], [expected]])
    assert by_hand.flags == [0, RecordFlags.SCHEDULED]
    both = request([None], keys=[b"k"], not_before_ms=5)
    assert both.flags == [RecordFlags.SCHEDULED | RecordFlags.TOMBSTONE]


def test_what_the_caller_changes_later_is_not_what_was_appended() -> None:
    payload, key, value = bytearray(b"payload"), bytearray(b"key"), bytearray(b"value")
    payloads, stamps = [b"first", payload], [1, 2]
    plain = [b"plain"]
    append = request(
        payloads, keys=[None, key], headers=[[], [("name", value)]], timestamps_ms=stamps
    )
    other = request(plain, timestamps_ms=array("Q", [7]))
    payload[:] = key[:3] = value[:] = b"changed"
    payloads.clear()
    stamps[:] = [99]
    plain.append(b"one more")
    assert list(append.payloads) == [b"first", b"payload"]
    assert decode_headers(append.headers[1] or b"") == (b"key", None, (("name", b"value"),))  # type: ignore[index]
    assert list(append.timestamps_ms) == [1, 2]  # type: ignore[arg-type]
    assert list(other.payloads) == [b"plain"]


def test_buffers_of_wider_items_are_taken_by_their_bytes() -> None:
    wide = array("I", [1, 2])
    append = request([wide], keys=[wide], headers=[[("name", wide)]])
    assert list(append.payloads) == [wide.tobytes()]
    block = decode_headers(append.headers[0] or b"")  # type: ignore[index]
    assert block == (wide.tobytes(), None, (("name", wide.tobytes()),))
    spread = memoryview(b"a-b-c-")[::2]
    assert list(request([spread]).payloads) == [b"abc"]


WRONG: dict[str, dict[str, Any]] = {
    "no messages": {"payloads": []},
    "bytes instead of a list": {"payloads": b"payload"},
    "text instead of a list": {"payloads": "payload"},
    "nothing": {"payloads": None},
    "a number": {"payloads": 5},
    "text in the list": {"payloads": ["text"]},
    "a number in the list": {"payloads": [b"one", 5]},
    "a deletion without a key": {"payloads": [None]},
    "a deletion whose key is None": {"payloads": [b"one", None], "keys": [b"a", None]},
    "too few keys": {"payloads": [b"one", b"two"], "keys": [b"a"]},
    "too many keys": {"payloads": [b"one"], "keys": [b"a", b"b"]},
    "keys in one piece": {"payloads": [b"one"], "keys": b"k"},
    "a key of text": {"payloads": [b"one"], "keys": ["key"]},
    "a key of numbers": {"payloads": [b"one"], "keys": [5]},
    "too few headers": {"payloads": [b"one", b"two"], "headers": [[]]},
    "headers that are no pairs": {"payloads": [b"one"], "headers": [[b"name"]]},
    "headers in no list": {"payloads": [b"one"], "headers": [5]},
    "a header's name of bytes": {"payloads": [b"one"], "headers": [[(b"name", b"v")]]},
    "a header's value of text": {"payloads": [b"one"], "headers": [[("name", "v")]]},
    "a header's name that is no text": {"payloads": [b"one"], "headers": [[("\ud800", b"")]]},
    "a negative moment": {"payloads": [b"one"], "timestamps_ms": -1},
    "one negative moment": {"payloads": [b"one", b"two"], "timestamps_ms": [1, -1]},
    "a moment too late": {"payloads": [b"one"], "timestamps_ms": 1 << 63},
    "a moment far too late": {"payloads": [b"one"], "timestamps_ms": [1 << 64]},
    "half a moment": {"payloads": [b"one"], "timestamps_ms": 1.5},
    "a list with half a moment": {"payloads": [b"one"], "timestamps_ms": [1.5]},
    "moments as text": {"payloads": [b"one"], "timestamps_ms": "1"},
    "too many moments": {"payloads": [b"one"], "timestamps_ms": [1, 2]},
    "no moment": {"payloads": [b"one"], "timestamps_ms": []},
    "a negative schedule": {"payloads": [b"one"], "not_before_ms": -5},
    "a schedule of text": {"payloads": [b"one"], "not_before_ms": "5"},
    "a schedule too late": {"payloads": [b"one"], "not_before_ms": 1 << 63},
    "a negative producer": {"payloads": [b"one"], "producer": Producer(-1, 0, 0)},
    "a producer too large": {"payloads": [b"one"], "producer": Producer(1 << 63, 0, 0)},
    "an epoch too large": {"payloads": [b"one"], "producer": Producer(1, 1 << 15, 0)},
    "a sequence too large": {"payloads": [b"one"], "producer": Producer(1, 0, 1 << 31)},
    "a negative sequence": {"payloads": [b"one"], "producer": Producer(1, 0, -1)},
    "a producer of text": {"payloads": [b"one"], "producer": Producer("a", 0, 0)},  # type: ignore[arg-type]
    "half a producer": {"payloads": [b"one"], "producer": (1, 2)},
    "a producer that is a number": {"payloads": [b"one"], "producer": 7},
    "replication": {"payloads": [b"one"], "ack": Ack.AFTER_REPLICATED},
    "an ack of text": {"payloads": [b"one"], "ack": "after_fsync"},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused_as_such(name: str) -> None:
    given = dict(WRONG[name])
    with pytest.raises(InputError):
        request(given.pop("payloads"), **given)


def test_a_plain_triple_is_a_producer() -> None:
    assert request([b"one"], producer=(7, 0, 5)).producer == Producer(7, 0, 5)


def test_replication_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(InputError, match="not supported yet; use 'after_fsync'"):
        request([b"one"], ack=Ack.AFTER_REPLICATED)
    with pytest.raises(InputError, match="after_write, after_fsync"):
        Ack.parse("sometimes")


def test_limits_are_told_with_their_numbers() -> None:
    limit = CONFIG.message_bytes_max
    assert request([bytes(limit)]).size == limit + RECORD_OVERHEAD
    with pytest.raises(TooLarge, match=f"{limit + 1}, the maximum is {limit}"):
        request([b"", bytes(limit + 1)])
    with pytest.raises(TooLarge):
        request([bytes(limit)], keys=[b""])
    with pytest.raises(TooLarge, match=str(CONFIG.request_bytes_max)):
        request([bytes(limit)] * 3)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["keys", "headers", "timestamps_ms", "producer"]), ANYTHING))
def test_whatever_is_handed_in_becomes_records_or_is_refused(given: dict[str, Any]) -> None:
    _never_surprises(lambda: request([b"one", b"two"], **given))


@given(ANYTHING)
def test_whatever_the_payloads_are_they_become_records_or_are_refused(payloads: Any) -> None:
    _never_surprises(lambda: request(payloads))
    _never_surprises(lambda: build_batch_append(payloads, config=CONFIG, ack=Ack.AFTER_FSYNC))


def _never_surprises(call: Callable[[], Append]) -> None:
    try:
        append = call()
    except InputError:
        return
    assert len(append.payloads) == append.message_count


def test_a_record_batch_is_one_record_of_many_messages() -> None:
    batch = build([b"one", b"two"], timestamps_ms=[7, 9], producer=Producer(3, 0, 5))
    append = build_batch_append(memoryview(batch), config=CONFIG, ack=Ack.AFTER_WRITE)
    assert append.is_batch
    assert (append.message_count, len(append.payloads)) == (2, 1)
    assert append.producer == Producer(3, 0, 5)
    assert append.timestamps_ms == 9
    assert append.flags == RecordFlags.BATCH


def test_a_batch_of_one_message_is_a_batch() -> None:
    append = build_batch_append(
        build([b"one"], timestamps_ms=7), config=CONFIG, ack=Ack.AFTER_FSYNC
    )
    assert append.is_batch


def test_what_is_not_exactly_one_batch_is_refused() -> None:
    batch = build([b"one", b"two"], timestamps_ms=7)
    for wrong in (b"", batch[:-1], batch + b"\0", flipped(batch, 30), "text", 70):
        with pytest.raises(InputError):
            build_batch_append(wrong, config=CONFIG, ack=Ack.AFTER_FSYNC)  # type: ignore[arg-type]
    large = build([bytes(CONFIG.request_bytes_max)], timestamps_ms=7)
    with pytest.raises(TooLarge):
        build_batch_append(large, config=CONFIG, ack=Ack.AFTER_FSYNC)


def test_the_limit_of_a_message_is_of_its_own_bytes_and_not_of_the_longest_parts() -> None:
    limit = CONFIG.message_bytes_max
    key = bytes(limit // 2)
    append = request([bytes(limit - 100), b""], keys=[None, key], producer=Producer(1, 0, 0))
    assert append.headers is not None
    sizes = sum(map(len, append.headers)) + limit - 100  # type: ignore[arg-type]
    assert append.size == sizes + 2 * RECORD_OVERHEAD
    with pytest.raises(TooLarge):
        request([b"", bytes(limit - 100)], keys=[None, key])
