"""Key compaction of sealed segments: which messages survive. Decided here, without I/O.

Of each key the last message stays, over all segments of the pass; messages without a key stay. A
last message that is a tombstone goes, too, once its segment is old enough; then nothing of the key
is left, for whatever was older went with it or before it. Control records stay.

A batch record of which every message survives stays as it is; of any other the survivors become
plain records.

Memory is bounded: of `keys_max` keys the last message is known at a time (40 to 120 bytes each),
and of every message one bit says whether it goes. Where there are more keys, the log is read
several times, each time for those keys whose hashes lie in the next range.
"""

from __future__ import annotations

from collections.abc import Iterator

from blake3 import blake3

from lakebed.keratin.format import RECORDS_START, RecordFlags
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import PackedMessages, key_of_block
from lakebed.keratin.run import Run
from lakebed.keratin.run_decoder import open_batch
from lakebed.keratin.segment_rewrite import Kept

KEYS_MAX = 4_000_000
_HASH_BYTES = 16
_HASHES_END = 1 << 8 * _HASH_BYTES
# Plain numbers: flags of an enumeration are slow.
_TOMBSTONE, _CONTROL, _BATCH = map(
    int, (RecordFlags.TOMBSTONE, RecordFlags.CONTROL, RecordFlags.BATCH)
)


class Survivors:
    """Told of every record in order, once for each range of keys; and then asked about each.

    Messages are numbered in their order, without those of control records.
    """

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._latest: dict[int, int] = {}  # the number of the last message, by its key's hash
        self._replaced = bytearray()  # a bit for each message that has a later one of its key
        self._next = 0  # the number of the next message
        self._hashes_start = 0
        self._hashes_end = _HASHES_END

    @property
    def key_count(self) -> int:
        """How many keys are held now."""
        return len(self._latest)

    @property
    def next_number(self) -> int:
        """Of the message that is noted next."""
        return self._next

    def note(self, run: Run, *, path: str) -> None:
        """The messages of a run."""
        for index, flags in enumerate(run.flags):
            if flags & _CONTROL:
                continue
            if flags & _BATCH:
                for key in _keys(run, index, path):
                    self._note(key)
            elif run.header_lengths[index]:
                self._note(key_of_block(run.headers(index)))
            else:
                self._note(None)

    def end_pass(self) -> bool:
        """All records were told of; whether all keys were noted, or it must be done again."""
        self._latest.clear()
        if self._hashes_end == _HASHES_END:
            return True
        size = self._hashes_end - self._hashes_start
        self._hashes_start = self._hashes_end
        self._hashes_end = min(self._hashes_start + size, _HASHES_END)
        self._next = 0
        return False

    def is_replaced(self, number: int) -> bool:
        """Whether there is a later message of the same key."""
        index = number >> 3
        return index < len(self._replaced) and bool(self._replaced[index] >> (number & 7) & 1)

    def _note(self, key: bytes | None) -> None:
        number = self._next
        self._next += 1
        if key is None:
            return
        hashed = int.from_bytes(blake3(key).digest(length=_HASH_BYTES), "big")
        if not self._hashes_start <= hashed < self._hashes_end:
            return
        before = self._latest.get(hashed)
        self._latest[hashed] = number
        if before is not None:
            self._mark(before)
        elif len(self._latest) > self._keys_max:
            self._halve()

    def _halve(self) -> None:
        """Leave the upper half of the keys to the next pass; what they replaced stays so."""
        while len(self._latest) > self._keys_max:
            self._hashes_end = (self._hashes_start + self._hashes_end) // 2
            end = self._hashes_end
            self._latest = {key: number for key, number in self._latest.items() if key < end}

    def _mark(self, number: int) -> None:
        index = number >> 3
        if index >= len(self._replaced):
            self._replaced.extend(bytes(max(index + 1 - len(self._replaced), 4096)))
        self._replaced[index] |= 1 << (number & 7)


class SegmentChoice:
    """What survives of one segment: asked for its runs in order, as often as need be."""

    def __init__(
        self, survivors: Survivors, path: str, *, first_number: int, drops_tombstones: bool
    ) -> None:
        self._survivors = survivors
        self._path = path
        self._first_number = self._next = first_number
        self._drops_tombstones = drops_tombstones
        self.leaves_out = False

    def __call__(self, run: Run) -> list[Kept]:
        if run.start == RECORDS_START:
            self._next = self._first_number
        kept = list(self._choose(run))
        self.leaves_out = self.leaves_out or kept != [range(run.record_count)]
        return kept

    def _choose(self, run: Run) -> Iterator[Kept]:
        first = 0
        for index, flags in enumerate(run.flags):
            if flags & _CONTROL:
                continue
            if flags & _BATCH:
                kept = self._kept_of_batch(run, index)
                if kept is None:
                    continue
            elif self._survives(is_tombstone=bool(flags & _TOMBSTONE), run=run, index=index):
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

    def _survives(self, *, is_tombstone: bool, run: Run, index: int) -> bool:
        number = self._next
        self._next += 1
        if self._survivors.is_replaced(number):
            return False
        if not (is_tombstone and self._drops_tombstones and run.header_lengths[index]):
            return True
        return key_of_block(run.headers(index)) is None

    def _kept_of_batch(self, run: Run, index: int) -> list[Message] | None:
        """The messages that stay; None if the record stays as it is."""
        batch = open_batch(run, index, path=self._path)
        if batch.record_flags & RecordFlags.CONTROL or not len(batch):
            return None
        first = self._next
        self._next += len(batch)
        kept = [
            message
            for number, message in enumerate(PackedMessages(batch), first)
            if not self._survivors.is_replaced(number)
            and not (self._drops_tombstones and message.is_tombstone and message.key is not None)
        ]
        return None if len(kept) == len(batch) else kept


def _keys(run: Run, index: int, path: str) -> Iterator[bytes | None]:
    batch = open_batch(run, index, path=path)
    if batch.record_flags & RecordFlags.CONTROL or not len(batch):
        return
    for key in PackedMessages(batch).keys():  # noqa: SIM118 - not a dictionary
        yield None if key is None else bytes(key)
