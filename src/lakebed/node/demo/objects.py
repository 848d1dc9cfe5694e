"""A bucket: objects small and large, versions, a race that one wins, all read back and verified."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from lakebed.base.errors import Corrupt
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import MIB
from lakebed.seglake.errors import PreconditionFailed
from lakebed.store.bucket import Bucket
from lakebed.store.store import Store

BUCKET = "demo-photos"
SMALL_COUNT = 2_000
LARGE_BYTES = 9 * MIB + 1  # three chunks
RACERS = 16


class Kept(NamedTuple):
    """What is in the bucket."""

    objects: int
    versions: int
    byte_count: int
    winners: int  # of those who put if absent


def put_and_read(root: Path, *, seed: int) -> Kept:
    """Put from many threads, overwrite, delete, and read everything back after a restart."""
    large = Random(seed).randbytes(LARGE_BYTES)
    with Store.open(root) as store:
        bucket = store.bucket(BUCKET)
        won: list[int] = []
        _in_threads(lambda racer: _put_small(bucket, racer))
        _in_threads(lambda racer: _put_if_absent(bucket, racer, won))
        winners = len(won)
        bucket.put("large", b"an older version")
        bucket.put("large", large)
        bucket.copy("large", "copy of large")
        bucket.delete("small/0")
    with Store.open(root) as store:
        bucket = store.bucket(BUCKET)
        byte_count = sum(_verified_size(bucket, item.key) for item in bucket.list())
        if bucket.read("copy of large") != large:
            raise Corrupt("the copy is not what was put", path=root)
        objects = sum(1 for _ in bucket.list())
        versions = sum(1 for _ in bucket.versions())
    kept = Kept(objects, versions, byte_count, winners)
    expected = (SMALL_COUNT - 1 + 3, SMALL_COUNT + 1 + 4, 1)
    if (kept.objects, kept.versions, kept.winners) != expected:
        raise Corrupt("not what was put", path=root, expected=expected, found=kept)
    return kept


def _in_threads(work: Callable[[int], None]) -> None:
    """Once for each racer, all at once; their errors are raised here."""
    with ThreadRunner() as runner:
        done = [runner.event() for _ in range(RACERS)]

        def step(racer: int) -> None:
            try:
                work(racer)
            finally:
                done[racer].set()

        for racer in range(RACERS):
            runner.spawn(f"racer {racer}", partial(step, racer))
        for event in done:
            event.wait()


def _put_small(bucket: Bucket, racer: int) -> None:
    for number in range(racer, SMALL_COUNT, RACERS):
        bucket.put(f"small/{number}", b"object %d" % number)


def _put_if_absent(bucket: Bucket, racer: int, won: list[int]) -> None:
    with contextlib.suppress(PreconditionFailed):
        bucket.put("the one", b"%d" % racer, if_none_match="*")
        won.append(racer)


def _verified_size(bucket: Bucket, key: str) -> int:
    """Every chunk is checked on its way out; here the whole against its ETag, too."""
    found = hashlib.md5(usedforsecurity=False)
    reader = bucket.get(key)
    for piece in reader:
        found.update(piece)
    if found.hexdigest() != reader.info.etag:
        raise Corrupt("an object is not what its ETag says", path=key)
    return reader.info.size
