"""A key's partition is the one that Kafka's Java client chooses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import InputError
from lakebed.keratin.partitioner import partition_of
from lakebed.kernels import murmur2

# As the tests of the Java client have them, with their sign.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_murmur2_gives_the_hashes_of_the_java_client(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key] % (1 << 32)
    assert murmur2(bytearray(key)) == murmur2(memoryview(key)) == murmur2(key)
    assert partition_of(key, 10) == (VECTORS[key] & 0x7FFFFFFF) % 10


@given(st.binary(max_size=40), st.integers(1, 10_000))
def test_aiokafka_chooses_the_same_partition(key: bytes, count: int) -> None:
    partitioner = pytest.importorskip("aiokafka.partitioner")
    assert murmur2(key) == partitioner.murmur2(key) % (1 << 32)
    numbers = list(range(count))
    assert partition_of(key, count) == partitioner.DefaultPartitioner()(key, numbers, numbers)


@pytest.mark.parametrize("key", ["text", 5, None, [1]])
def test_a_key_that_is_not_bytes_is_refused(key: object) -> None:
    with pytest.raises(InputError):
        partition_of(key, 3)  # type: ignore[arg-type]
