"""Samples the keys of the buckets from the operation log.

Sampling takes at most about 1,200 lookups, however large the store is. Jobs that read the whole
store use the sample to split their work. If the sample is not representative, the splits are
uneven, but the results of the job are still right.
"""

from __future__ import annotations

from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.model import State
from lakebed.seglake.stored_rows import KeySample, SampledKey

KEYS_MAX = 512
_SEQUENCE_MAX = 1 << 62


def sample_keys(reader: Reader, *, only_current: bool, count_max: int = KEYS_MAX) -> KeySample:
    """Returns sampled keys and the estimated number of versions in the store.

    `count_max` is the maximum number of entries of the operation log that are sampled. A key is
    repeated for each sampled version of it. With `only_current`, samples and counts only current
    objects.
    """
    oldest = reader.oplog(limit=1)
    if not oldest:
        return KeySample([], 0)
    first, last = oldest[0].sequence, _last_sequence(reader)
    total = last - first + 1
    count = min(total, count_max)
    keys = []
    for number in range(count):
        entries = reader.oplog(after=first + total * number // count - 1, limit=1)
        if entries and _exists(reader, entries[0].bucket, entries[0].key, entries[0].version_id,
                               only_current):  # fmt: skip
            keys.append(SampledKey(entries[0].bucket, entries[0].key))
    return KeySample(sorted(keys), total * len(keys) // count)


def _exists(reader: Reader, bucket: str, key: str, version_id: str, only_current: bool) -> bool:
    if not key or not version_id:
        return False  # an operation on a bucket
    if only_current:
        current = reader.current(bucket, key)
        if current is None or current.state is State.DELETED:
            return False
        return current.version_id == version_id
    return reader.version(bucket, key, version_id) is not None


def _last_sequence(reader: Reader) -> int:
    """Returns the last sequence number of the operation log, found by binary search."""
    low, high = 0, 1
    while high < _SEQUENCE_MAX and reader.oplog(after=high, limit=1):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if reader.oplog(after=middle, limit=1):
            low = middle
        else:
            high = middle
    return high
