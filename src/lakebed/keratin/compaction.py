"""Decides, without I/O, which messages of sealed segments survive key compaction.

The last message of each key, in all segments of the pass, is kept. Messages without a key and
control records are kept too. If the last message of a key is a tombstone, it is removed once its
segment is old enough. No older message of that key is left then, because those are removed before
the tombstone or together with it.

A batch record is kept unchanged if every message in it survives. Otherwise its survivors become
plain records.

Memory is bounded: the hashes of at most `keys_max` keys are held at a time (40 to 120 bytes each),
plus one bit per message. If there are more keys, the log is read several times, each time for the
keys whose hashes lie in the next range.
"""

from __future__ import annotations

from collections.abc import Iterator

from blake3 import blake3

from lakebed.keratin.format import RecordFlags
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import PackedMessages, key_of_block
from lakebed.keratin.run import Run
from lakebed.keratin.run_decoder import open_batch
from lakebed.keratin.segment_rewrite import Kept

KEYS_MAX = 4_000_000
_HASH_BYTES = 16
_HASHES_END = 1 << 8 * _HASH_BYTES
# Plain numbers: operations on enum flags are slow.
_TOMBSTONE, _CONTROL, _BATCH = map(
    int, (RecordFlags.TOMBSTONE, RecordFlags.CONTROL, RecordFlags.BATCH)
)


class Survivors:
    """Finds the messages that are replaced by a later message with the same key.

    The caller passes all records in order to `note` and calls `end_pass`, and repeats both until
    `end_pass` returns True. After that, `is_replaced` gives the result for each message. Messages
    are numbered from 0 in log order; control records are not counted.
    """

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._latest: dict[int, int] = {}  # the number of the last message, by its key's hash
        self._replaced = bytearray()  # one bit per message: set if a later one has its key
        self._next = 0  # the number of the next message
        self._hashes_start = 0
        self._hashes_end = _HASHES_END

    @property
    def key_count(self) -> int:
        """The number of keys held in memory now."""
        return len(self._latest)

    @property
    def next_number(self) -> int:
        """The number that the next message passed to `note` will get."""
        return self._next

    def note(self, run: Run, *, path: str) -> None:
        """Records the keys of a run's messages. `path` is the log's path, for error messages."""
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
        """Ends a pass over all records.

        Returns True if all keys have been covered, and False if another pass is needed.
        """
        self._latest.clear()
        if self._hashes_end == _HASHES_END:
            return True
        size = self._hashes_end - self._hashes_start
        self._hashes_start = self._hashes_end
        self._hashes_end = min(self._hashes_start + size, _HASHES_END)
        self._next = 0
        return False

    def is_replaced(self, number: int) -> bool:
        """Returns whether a later message has the same key as message `number`.

        The answer is complete only after the last pass.
        """
        index = number >> 3
        return index < len(self._replaced) and bool(self._replaced[index] >> (number & 7) & 1)

    def _note(self, key: bytes | None) -> None:
        number = self._next
        self._next += 1
        if key is None:
            return
        key_hash = int.from_bytes(blake3(key).digest(length=_HASH_BYTES), "big")
        if not self._hashes_start <= key_hash < self._hashes_end:
            return
        previous_number = self._latest.get(key_hash)
        self._latest[key_hash] = number
        if previous_number is not None:
            self._mark(previous_number)
        elif len(self._latest) > self._keys_max:
            self._halve()

    def _halve(self) -> None:
        """Postpones keys to later passes, until at most `keys_max` are held.

        Repeatedly drops the keys whose hashes are in the upper half of the current range. Messages
        that are already known to be replaced stay marked.
        """
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
    """Chooses which records of one segment survive.

    The instance is called with each run of the segment, in order, and returns what to keep of that
    run. A call with a run that does not begin after the previous run starts over; that run must be
    the first run of the segment.
    """

    def __init__(
        self, survivors: Survivors, path: str, *, first_number: int, drops_tombstones: bool
    ) -> None:
        self._survivors = survivors
        self._path = path
        self._first_number = self._next = first_number
        self._run_start = -1  # where the run of the last call begins in the log
        self._drops_tombstones = drops_tombstones
        self.leaves_out = False  # whether a message was left out so far

    def __call__(self, run: Run) -> list[Kept]:
        if run.start <= self._run_start:
            self._next = self._first_number
        self._run_start = run.start
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
        """Returns the surviving messages of the batch record at `index`.

        Returns None if the record is kept unchanged.
        """
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
