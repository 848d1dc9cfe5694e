"""Many damaged buffers in a process of their own, so that a crash is a failed test."""

from __future__ import annotations

import random
import sys

import pytest

from lakebed.kernels.results import Stop
from tests.kernels.samples import Kernels, aof_data, assert_same, keratin_data, run_python

pytestmark = pytest.mark.thorough

SEED = 20_240_607
ROUND_COUNT = 4_000
COMPARED_EVERY = 10  # the reference is slow


def test_damaged_buffers_never_crash_the_process(compiled: Kernels) -> None:
    done = run_python("-X", "faulthandler", "-m", "tests.kernels.test_fuzz", str(SEED))
    assert done.returncode == 0, f"seed {SEED}: {done.stdout}{done.stderr}"
    assert f"{ROUND_COUNT} rounds" in done.stdout


def fuzz(seed: int) -> None:
    """Damage, scan with every set of CPU features, compare now and then."""
    import lakebed.kernels._compiled as compiled

    source = random.Random(seed)
    feature_sets = [compiled.features_available(), ("sse4.2", "pclmul"), ()]
    usable = [s for s in feature_sets if set(s) <= set(compiled.features_available())]
    for number in range(ROUND_COUNT):
        compiled.set_features(source.choice(usable))
        name, whole = sample(source)
        # An own allocation of the exact size: reading past it is what a sanitizer would catch.
        damaged = damage(source, whole)
        start = source.randrange(len(damaged) + 1) if source.random() < 0.2 else 0
        count_max = source.choice([0, 1, 5, 1 << 62])
        scan = getattr(compiled, name)(damaged, start, len(damaged), count_max=count_max)
        assert start <= scan.end <= len(damaged), (seed, number)
        assert isinstance(scan.stop, Stop)
        found = compiled.aof_find(damaged, start, len(damaged))
        assert found == -1 or start <= found < len(damaged), (seed, number)
        if number % COMPARED_EVERY == 0:
            assert_same(name, damaged, start, len(damaged), count_max=count_max)
            assert_same("aof_find", damaged, start, len(damaged))
    print(f"seed {seed}: {ROUND_COUNT} rounds")


def sample(source: random.Random) -> tuple[str, bytes]:
    sizes = [source.choice([1, 7, 8, 100, 300, 2000]) for _ in range(source.randrange(6))]
    payloads = [source.randbytes(size) for size in sizes]
    if source.random() < 0.5:
        return "aof_scan", aof_data(payloads)
    return "keratin_scan", keratin_data(payloads)


def damage(source: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole if source.random() < 0.9 else source.randbytes(200))
    for _ in range(source.randrange(4)):
        if not data:
            break
        place = source.randrange(len(data))
        kind = source.randrange(4)
        if kind == 0:
            data[place] ^= 1 << source.randrange(8)
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            data[place : place + 4] = source.choice([b"\xff" * 4, bytes(4), b"\xff\xff\xff\x7f"])
        else:
            data[place:place] = source.randbytes(source.randrange(40))
    return bytes(data)


if __name__ == "__main__":
    fuzz(int(sys.argv[1]))
