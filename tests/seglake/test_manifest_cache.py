"""Decoded manifests in memory: found by version, bounded, and never in the way of an error."""

from __future__ import annotations

import pytest

from lakebed.base.errors import DataError
from lakebed.base.runner import ThreadRunner
from lakebed.seglake.manifest import Manifest, encode
from lakebed.seglake.manifest_cache import ManifestCache
from lakebed.seglake.model import Chunk

NO_BYTES = b""


def manifest(number: int, *, chunk_count: int = 1) -> Manifest:
    chunks = tuple(Chunk(bytes(32), "0" * 24, 44 + at, 1) for at in range(chunk_count))
    return Manifest(
        bucket="photos", key="k", version_id=f"{number:032x}", size=chunk_count, chunks=chunks
    )


def is_kept(cache: ManifestCache, one: Manifest) -> bool:
    """Only what is not kept is decoded again, and from no bytes it cannot be."""
    try:
        return cache.decoded(one.version_id, NO_BYTES, path="k") == one
    except DataError:
        return False


@pytest.fixture
def cache() -> ManifestCache:
    return ManifestCache(mutex=ThreadRunner().mutex())


def test_a_manifest_is_decoded_once(cache: ManifestCache) -> None:
    one, other = manifest(1), manifest(2)
    assert cache.decoded(one.version_id, encode(one), path="k") == one
    assert cache.decoded(other.version_id, encode(other), path="k") == other
    assert is_kept(cache, one)
    assert is_kept(cache, other)


def test_what_is_damaged_is_not_kept(cache: ManifestCache) -> None:
    one = manifest(1)
    with pytest.raises(DataError):
        cache.decoded(one.version_id, encode(one)[:-1], path="k")
    assert not is_kept(cache, one)


def test_the_least_recently_used_goes_first(cache: ManifestCache) -> None:
    large = [manifest(number, chunk_count=10_000) for number in range(4)]
    for one in large[:3]:
        cache.decoded(one.version_id, encode(one), path="k")
    assert is_kept(cache, large[0])
    cache.decoded(large[3].version_id, encode(large[3]), path="k")
    assert [is_kept(cache, one) for one in large] == [True, False, True, True]


def test_one_that_is_too_large_pushes_nothing_out(cache: ManifestCache) -> None:
    small, huge = manifest(1), manifest(2, chunk_count=40_000)
    for one in (small, huge):
        cache.decoded(one.version_id, encode(one), path="k")
    assert [is_kept(cache, one) for one in (small, huge)] == [True, False]
