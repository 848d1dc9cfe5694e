"""A log: appended, followed, sealed, uploaded, evicted, and read back from whatever tier it is in.

Record number n says that it is; so who reads knows whether one is missing, repeated or changed.
"""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Final

from lakebed.aof.errors import WouldBlock
from lakebed.aof.record_batch import Record
from lakebed.aof.record_id import RecordId
from lakebed.client.store import RemoteStore
from tests.load.traffic import Traffic, Window

LOG: Final = "trail"
AHEAD_MAX: Final = 20_000  # records: less than a third of what retention keeps
PACE: Final = 10  # operations of all the traffic between two appends: it would outrun the others
MOVE_EACH: Final = 12_000  # records
COLD_COUNT: Final = 200  # records that are read back
WAIT_S: Final = 60.0
LOOK_S: Final = 0.5


def payload(number: int) -> bytes:
    mark = sha256(b"record %d" % number).hexdigest().encode()
    return b"%d %s" % (number, mark * (1 + number % 4))


class LogTraffic:
    """`count` records were acknowledged as durable."""

    def __init__(self, store: RemoteStore, traffic: Traffic, *, seed: int) -> None:
        self._store = store
        self._log = store.log(LOG)
        self._follower = self._log.follow()
        self._traffic = traffic
        self._random = Random(f"log {seed}")
        self._window = Window(traffic, ("follower",), ahead_max=AHEAD_MAX)
        self.count = 0
        self.followed = 0
        self.moved = {"upload": 0, "evict": 0}
        self.cold_reads = 0
        self._next_move = MOVE_EACH

    def append(self) -> None:
        while self._window.wait_for_room() and self._traffic.wait_for_more(PACE):
            numbers = range(self.count, self.count + self._random.randint(1, 200))
            self._append([payload(number) for number in numbers])
            self._log.flush()
            self.count = numbers.stop
            self._window.give(len(numbers))

    def follow(self) -> None:
        while self._traffic.is_on:
            self._take()

    def move(self) -> None:
        """What the coordinator does by itself, by hand, and beside it."""
        while self._traffic.wait_until(lambda: self.followed >= self._next_move):
            self._log.seal_current_segment()
            self._move("upload")
            self._move("evict", warm=self._random.random() < 0.5)
            self._read_cold()
            self._next_move = self.followed + MOVE_EACH

    def finish(self) -> None:
        """Nobody appends any more: until all of it was seen."""
        while self.followed < self.count:
            self._take()
        self._follower.close()

    def check(self) -> int:
        """What retention left is the end of what was appended, without a gap; how many."""
        numbers = [number_of(record) for record in self._log.read()]
        assert numbers == list(range(self.count - len(numbers), self.count))
        return len(numbers)

    def _take(self) -> None:
        batch = self._follower.next_batch(timeout=LOOK_S)
        for record in batch or ():
            assert record.payload == payload(self.followed), self.followed
            self.followed += 1
        self._window.take("follower", len(batch or ()))

    def _append(self, left: list[bytes]) -> None:
        """If it would block it waits with the next, and then goes on."""
        while left:
            try:
                self._log.append_records(left)
                return
            except WouldBlock as error:
                left = left[len(error.record_ids) :]
                self._log.append_record_with_timeout(left.pop(0), WAIT_S)

    def _move(self, kind: str, **arguments: bool) -> None:
        outcome = getattr(self._store.maintenance, kind)(LOG, **arguments)
        assert not outcome.failed, outcome.failed
        assert outcome.stopped_by is None
        self.moved[kind] += len(outcome.moved)

    def _read_cold(self) -> None:
        """From a segment that is in Tier 2 alone and has some time left."""
        places = self._log.tiers.residency()
        cold = [one for one in places[len(places) // 2 :] if one.tiers == (2,)]
        if not cold:
            return
        start = RecordId.from_parts(self._random.choice(cold).segment_id, 0)
        records = list(self._log.page(start, max_records=COLD_COUNT).payloads)
        first = int(bytes(records[0]).partition(b" ")[0])
        assert records == [payload(first + index) for index in range(len(records))]
        self.cold_reads += len(records)


def number_of(record: Record) -> int:
    """Of a record that is as it was appended."""
    number = int(bytes(record.payload).partition(b" ")[0])
    assert record.payload == payload(number), number
    return number
