"""Columns of random numbers in a process of their own, so that a crash is a failed test.

Each buffer ends where memory that may not be read begins: one byte too far is such a crash. Some
columns change while they are used.
"""

from __future__ import annotations

import random
import sys
import threading
from array import array

import pytest

from lakebed.base.errors import InputError
from lakebed.keratin.headers import encode_headers
from tests.kernels.samples import Kernels, assert_same, keratin_data, run_python
from tests.kernels.test_fuzz import damage
from tests.kernels.test_record_batch_fuzz import at_the_edge, fenced_memory, sample

pytestmark = pytest.mark.thorough

SEED = 20_250_214
ROUND_COUNT = 6_000
COMPARED_EVERY = 20  # the reference is slow
CHANGING_ROUND_COUNT = 300
LIMITS = {"H": 1 << 16, "I": 1 << 32, "i": 1 << 31, "Q": 1 << 64}


def test_random_columns_never_crash_the_process(compiled: Kernels) -> None:
    done = run_python("-X", "faulthandler", "-m", "tests.kernels.test_columns_fuzz", str(SEED))
    assert done.returncode == 0, f"seed {SEED}: {done.stdout}{done.stderr}"
    assert f"{ROUND_COUNT} rounds" in done.stdout


def fuzz(seed: int) -> None:
    """Call each with random numbers and damaged bytes, compare now and then."""
    source = random.Random(seed)
    memory = fenced_memory()
    for round_number in range(ROUND_COUNT):
        blocks = [source.choice([None, block(source), source.randbytes(9)]) for _ in range(5)]
        payloads = [source.randbytes(source.randrange(40)) for _ in blocks]
        whole = source.choice([keratin_data(payloads, blocks), sample(source)[0]])
        data = at_the_edge(memory, damage(source, whole))
        is_compared = round_number % COMPARED_EVERY == 0
        count = source.randrange(40)
        lengths = numbers(source, source.choice("iI"), count, len(data))
        positions = numbers(source, source.choice("QI"), count, len(data))
        call(is_compared, "gather", data, positions, lengths)
        parts = [numbers(source, code, count, len(data)) for code in "QIIH"]
        call(is_compared, "keratin_fields", data, *parts)
        parts = [numbers(source, "I", count, len(data)) for _ in range(3)]
        call(is_compared, "record_batch_headers", data, *parts)
    change_meanwhile(source, memory)
    print(f"seed {seed}: {ROUND_COUNT} rounds")


def block(source: random.Random) -> bytes:
    headers = [("name", source.choice([None, b"", b"value"]))] * source.randrange(4)
    return encode_headers(source.choice([None, b"", b"key"]), None, headers)


def numbers(source: random.Random, code: str, count: int, near: int) -> array[int]:
    """Mostly such as may be right, and often the same."""
    limit = LIMITS[code]
    small = min(near + 2, limit)
    kind = source.random()
    if kind < 0.3:
        return array(code, [source.randrange(small)] * count)
    if kind < 0.9:
        return array(code, [source.randrange(1 + min(30, small - 1)) for _ in range(count)])
    return array(code, [source.choice([limit - 1, source.randrange(limit)]) for _ in range(count)])


def call(is_compared: bool, name: str, *arguments: object) -> None:
    import lakebed.kernels._compiled as compiled

    if is_compared:
        assert_same(name, *arguments)
        return
    try:
        getattr(compiled, name)(*arguments)
    except InputError:
        return


def change_meanwhile(source: random.Random, memory: object) -> None:
    """Another thread writes into the columns while they are gathered."""
    count = 20_000  # enough for the interpreter's lock to be given up
    data = at_the_edge(memory, source.randbytes(4096))  # type: ignore[arg-type]
    positions, lengths = array("Q", [0] * count), array("i", [64] * count)
    is_over = threading.Event()

    def change() -> None:
        while not is_over.is_set():
            for index in range(0, count, 97):
                positions[index] = 1 << 62
                lengths[index] = 1 << 30
                positions[index] = 4000
                lengths[index] = 64

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(CHANGING_ROUND_COUNT):
        call(False, "gather", data, positions, lengths)
    is_over.set()
    thread.join()


if __name__ == "__main__":
    fuzz(int(sys.argv[1]))
