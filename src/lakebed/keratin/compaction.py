"""Key compaction of sealed segments: which messages survive. Decided here, without I/O.

Of each key the last message stays, over all segments of the pass; messages without a key stay. A
last message that is a tombstone goes, too, once its segment is old enough; then nothing of the key
is left, for whatever was older went with it or before it. Control records stay.

A batch record of which every message survives stays as it is; of any other the survivors become
plain records.

Memory is bounded: of `keys_max` keys the last offset is known (40 to 120 bytes each). A pass that
meets more leaves everything from the first such message on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from blake3 import blake3

from lakebed.keratin.format import RecordFlags
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import PackedMessages, key_of_block
from lakebed.keratin.messages import open_batch
from lakebed.keratin.rewriting import Kept
from lakebed.keratin.run import Run

KEYS_MAX = 4_000_000
_HASH_BYTES = 16
# Plain numbers: flags of an enumeration are slow.
_TOMBSTONE, _CONTROL, _BATCH = map(
    int, (RecordFlags.TOMBSTONE, RecordFlags.CONTROL, RecordFlags.BATCH)
)


class Survivors:
    """Told of every record of the pass in order, and then asked about each."""

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._latest: dict[bytes, int] = {}
        self.covered_end: int | None = None  # from this offset on nothing was noted

    @property
    def key_count(self) -> int:
        return len(self._latest)

    def note(self, run: Run, *, path: str) -> bool:
        """The messages of a run; False if there are too many keys, and nothing more is noted."""
        for index, flags in enumerate(run.flags):
            if self.covered_end is not None:
                return False
            if flags & _CONTROL:
                continue
            if flags & _BATCH:
                for offset, key in _keys(run, index, path):
                    self._note(key, offset)
            elif run.header_lengths[index]:
                self._note(key_of_block(run.headers(index)), int(run.offsets[index]))
        return self.covered_end is None

    def choose(self, run: Run, *, path: str, drops_tombstones: bool) -> Iterator[Kept]:
        """What stays of a run of the pass."""
        first = 0
        for index, flags in enumerate(run.flags):
            if flags & _CONTROL:
                continue
            if flags & _BATCH:
                kept = self._kept_of_batch(run, index, path, drops_tombstones)
                if kept is None:
                    continue
            elif not run.header_lengths[index] or self.survives(
                key_of_block(run.headers(index)),
                int(run.offsets[index]),
                is_dropped_tombstone=drops_tombstones and bool(flags & _TOMBSTONE),
            ):
                continue
            else:
                kept = []
            if first < index:
                yield range(first, index)
            if kept:
                yield kept
            first = index + 1
        if first < run.record_count:
            yield range(first, run.record_count)

    def survives(self, key: bytes | None, offset: int, *, is_dropped_tombstone: bool) -> bool:
        if key is None or (self.covered_end is not None and offset >= self.covered_end):
            return True
        latest = self._latest.get(_hash(key))
        if latest is None:
            return True
        return latest == offset and not is_dropped_tombstone

    def _kept_of_batch(
        self, run: Run, index: int, path: str, drops_tombstones: bool
    ) -> list[Message] | None:
        """The messages that stay; None if the record stays as it is."""
        batch = open_batch(run, index, path=path)
        if batch.record_flags & RecordFlags.CONTROL or not len(batch):
            return None
        kept = [
            message
            for message in PackedMessages(batch)
            if self.survives(
                message.key,
                message.offset,
                is_dropped_tombstone=drops_tombstones and message.is_tombstone,
            )
        ]
        return None if len(kept) == len(batch) else kept

    def _note(self, key: bytes | None, offset: int) -> None:
        if key is None or self.covered_end is not None:
            return
        hashed = _hash(key)
        if len(self._latest) >= self._keys_max and hashed not in self._latest:
            self.covered_end = offset
            return
        self._latest[hashed] = offset


def _keys(run: Run, index: int, path: str) -> Iterator[tuple[int, bytes | None]]:
    batch = open_batch(run, index, path=path)
    if batch.record_flags & RecordFlags.CONTROL or not len(batch):
        return
    messages = PackedMessages(batch)
    for offset, key in zip(messages.offsets, messages.keys(), strict=True):
        yield int(offset), None if key is None else bytes(key)


def _hash(key: bytes) -> bytes:
    return blake3(key).digest(length=_HASH_BYTES)
