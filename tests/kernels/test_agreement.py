"""The compiled kernels and the reference give the same, whatever they are given."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.kernels import reference
from lakebed.kernels.results import Stop
from tests.kernels.samples import (
    aof_calls,
    aof_data,
    assert_same,
    keratin_calls,
    keratin_data,
    load_compiled,
    payload_lists,
    quick,
)

pytestmark = pytest.mark.thorough

anything = st.one_of(
    st.integers(-(1 << 66), 1 << 66),
    st.none(),
    st.text(max_size=3),
    st.floats(),
    st.binary(max_size=5),
    st.lists(st.one_of(st.integers(-2, 1 << 65), st.none(), st.binary(max_size=3)), max_size=4),
)


@quick
@given(aof_calls())
def test_aof_encode_agrees(call: tuple[list[Any], dict[str, Any]]) -> None:
    payloads, named = call
    assert_same("aof_encode", payloads, **named)


@quick
@given(keratin_calls())
def test_keratin_encode_agrees(call: tuple[list[Any], list[Any] | None, dict[str, Any]]) -> None:
    payloads, headers, named = call
    assert_same("keratin_encode", payloads, headers, **named)


@quick
@given(anything, anything, anything, anything, anything)
def test_aof_encode_refuses_the_same_with_the_same_words(
    payloads: Any, timestamps: Any, ext_ids: Any, capacity: Any, crc64: Any
) -> None:
    numbers = {"timestamps": timestamps, "ext_ids": ext_ids}
    assert_same("aof_encode", payloads, **numbers, capacity=capacity, crc64=crc64)
    assert_same("aof_encode", [b"ab", b"c"], **numbers, capacity=100)


@quick
@given(anything, anything, anything, anything, anything)
def test_keratin_encode_refuses_the_same_with_the_same_words(
    payloads: Any, headers: Any, offsets: Any, stamps: Any, flags: Any
) -> None:
    numbers = {"offsets": offsets, "timestamps_ms": stamps, "flags": flags}
    for name in ("keratin_encode", "keratin_batch"):
        assert_same(name, payloads, headers, **numbers, capacity=100)
        assert_same(name, [b"ab", b"c"], None, **numbers, capacity=100)


@quick
@given(anything, anything, anything, anything)
def test_scans_refuse_the_same_with_the_same_words(
    buffer: Any, start: Any, end: Any, count_max: Any
) -> None:
    for name in ("aof_scan", "keratin_scan"):
        assert_same(name, buffer, start, end, count_max=count_max)
        assert_same(name, bytes(40), start, end, count_max=count_max)
    assert_same("aof_find", buffer, start, end)
    assert_same("aof_find", bytes(40), start, end)


@quick
@given(aof_calls(), st.integers(0, 15))
def test_what_was_encoded_is_scanned_back(
    call: tuple[list[Any], dict[str, Any]], count_max: int
) -> None:
    payloads, named = call
    compiled = load_compiled()
    encoded = compiled.aof_encode(payloads, **named)
    scan = compiled.aof_scan(encoded.data, 0, len(encoded.data), count_max=count_max)
    found = min(len(encoded.offsets), count_max)
    assert scan.offsets.tolist() == encoded.offsets.tolist()[:found]
    starts = zip(scan.offsets, scan.lengths, strict=True)
    got = [encoded.data[offset + 24 : offset + 24 + length] for offset, length in starts]
    assert got == [bytes(payload) for payload in payloads[:found]]
    assert scan.stop == (Stop.COUNT if found == count_max else Stop.END)


@quick
@given(payload_lists, st.data())
def test_aof_scan_agrees_on_damaged_data(payloads: list[bytes], data: st.DataObject) -> None:
    check_damaged("aof_scan", aof_data(payloads), data)


@quick
@given(payload_lists, st.data())
def test_keratin_scan_agrees_on_damaged_data(payloads: list[bytes], data: st.DataObject) -> None:
    headers = data.draw(st.sampled_from([None, [b"h" * len(payload) for payload in payloads]]))
    check_damaged("keratin_scan", keratin_data(payloads, headers), data)


@quick
@given(st.binary(max_size=200), st.integers(0, 10))
def test_scans_agree_on_random_bytes(data: bytes, count_max: int) -> None:
    for name in ("aof_scan", "keratin_scan"):
        assert_same(name, data, 0, len(data), count_max=count_max)
        assert_same(name, b"KR\x00\x01" + data, 0, len(data) + 4, count_max=count_max)


def test_scans_agree_at_every_truncation_and_every_flipped_byte() -> None:
    samples = {"aof_scan": aof_data([b"a", b"b" * 17]), "keratin_scan": keratin_data([b"a", b""])}
    for name, data in samples.items():
        for index in range(len(data)):
            assert_same(name, data, 0, index, count_max=9)
            changed = bytearray(data)
            changed[index] ^= 0x80
            assert_same(name, changed, 0, len(data), count_max=9)


def check_damaged(name: str, whole: bytes, data: st.DataObject) -> None:
    """Change some bytes, cut or extend the end, and compare."""
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 3)) if whole else 0):
        changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    tail = data.draw(st.sampled_from([b"", bytes(1), bytes(23), bytes(64), b"\x01", b"KR" * 20]))
    changed += tail
    end = data.draw(st.integers(0, len(changed)))
    assert_same(name, changed, 0, len(changed), count_max=data.draw(st.integers(0, 14)))
    assert_same(name, changed, 0, end, count_max=100)
    assert_same(name, changed, data.draw(st.integers(0, end)), end, count_max=100)


def test_the_reference_says_that_it_uses_no_extensions() -> None:
    assert reference.features() == ()
