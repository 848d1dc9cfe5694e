"""Many damaged record batches in a process of their own, so that a crash is a failed test.

Each one ends where memory that may not be read begins: one byte too far is such a crash.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys

import pytest

from lakebed.kernels import reference
from tests.kernels.samples import Kernels, assert_same, run_python
from tests.kernels.test_fuzz import damage

pytestmark = pytest.mark.thorough

SEED = 20_250_214
ROUND_COUNT = 6_000
COMPARED_EVERY = 20  # the reference is slow
ROOM_BYTES = 16 * mmap.PAGESIZE


def test_damaged_batches_never_crash_the_process(compiled: Kernels) -> None:
    done = run_python("-X", "faulthandler", "-m", "tests.kernels.test_record_batch_fuzz", str(SEED))
    assert done.returncode == 0, f"seed {SEED}: {done.stdout}{done.stderr}"
    assert f"{ROUND_COUNT} rounds" in done.stdout


def fuzz(seed: int) -> None:
    """Damage, decode, look at every position that is given, compare now and then."""
    import lakebed.kernels._compiled as compiled

    source = random.Random(seed)
    memory = fenced_memory()
    for round_number in range(ROUND_COUNT):
        whole, count = sample(source)
        data = at_the_edge(memory, damage(source, whole))
        start = source.randrange(len(data) + 1) if source.random() < 0.2 else 0
        named = {"count": source.choice([count, count, 0, (1 << 31) - 1])}
        found = compiled.record_batch_decode(data, start, len(data), **named)
        place = (seed, round_number)
        assert start <= found.end <= len(data), place
        for positions, lengths in (found[2:4], found[4:6], found[6:8]):
            for position, length in zip(positions, lengths, strict=True):
                assert start <= position <= position + max(0, length) <= found.end, place
        if round_number % COMPARED_EVERY == 0:
            assert_same("record_batch_decode", data, start, len(data), **named)
    print(f"seed {seed}: {ROUND_COUNT} rounds")


def fenced_memory() -> mmap.mmap:
    """Room, and a page behind it that nobody may touch."""
    memory = mmap.mmap(-1, ROOM_BYTES + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(address + ROOM_BYTES, mmap.PAGESIZE, 0) == 0
    return memory


def at_the_edge(memory: mmap.mmap, data: bytes) -> memoryview:
    """The data, with the fence right behind it."""
    view = memoryview(memory)[ROOM_BYTES - len(data) : ROOM_BYTES]
    view[:] = data
    return view


def sample(source: random.Random) -> tuple[bytes, int]:
    count = source.randrange(9)
    sizes = [source.choice([0, 1, 50, 63, 64, 300, 2000]) for _ in range(count)]
    values = [source.choice([None, source.randbytes(size)]) for size in sizes]
    keys = [source.choice([None, b"", source.randbytes(5)]) for _ in range(count)]
    headers = [source.choice([None, b"\x02\x02h\x01", b"\x04\x00\x00\x02k\x04vw"]) for _ in values]
    stamps = [source.randrange(1 << 40) for _ in range(count)]
    encoded = reference.record_batch_encode(
        values, keys, headers, timestamps_ms=stamps, first_timestamp_ms=1 << 39, capacity=1 << 30
    )
    return encoded.data, count


if __name__ == "__main__":
    fuzz(int(sys.argv[1]))
