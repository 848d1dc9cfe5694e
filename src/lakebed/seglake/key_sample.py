"""How keys are spread over the buckets, from a sample of the operation log.

It takes a few hundred look-ups, however large the store is. Whoever reads the whole cuts it by
this; nothing but the balance of the parts depends on it.
"""

from __future__ import annotations

from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.model import State
from lakebed.seglake.stored_rows import KeySample, SampledKey

KEYS_MAX = 512
_SEQUENCE_MAX = 1 << 62


def sample_keys(reader: Reader, *, only_current: bool, count_max: int = KEYS_MAX) -> KeySample:
    """Keys, as often as they have versions (or once, if they have an object), and how many rows."""
    oldest = reader.oplog(limit=1)
    if not oldest:
        return KeySample([], 0)
    first, last = oldest[0].sequence, _last_sequence(reader)
    total = last - first + 1
    count = min(total, count_max)
    keys = []
    for number in range(count):
        found = reader.oplog(after=first + total * number // count - 1, limit=1)
        if found and _is_there(reader, found[0].bucket, found[0].key, found[0].version_id,
                               only_current):  # fmt: skip
            keys.append(SampledKey(found[0].bucket, found[0].key))
    return KeySample(sorted(keys), total * len(keys) // count)


def _is_there(reader: Reader, bucket: str, key: str, version_id: str, only_current: bool) -> bool:
    if not key or not version_id:
        return False  # about a bucket
    if only_current:
        current = reader.current(bucket, key)
        if current is None or current.state is State.DELETED:
            return False
        return current.version_id == version_id
    return reader.version(bucket, key, version_id) is not None


def _last_sequence(reader: Reader) -> int:
    """Found by halving: a look-up behind the last one finds nothing."""
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
