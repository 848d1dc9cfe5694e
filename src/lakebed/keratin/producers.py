"""The last messages of each producer, to recognise messages that are sent again. No I/O.

Messages of a producer with consecutive sequences and consecutive offsets are a *run*. The last few
runs of each producer, in its newest epoch, are remembered. A message of this epoch whose sequence
falls into a run is already in the log. Sequences go from 0 to 2^31 - 1 and then start over, as in
Kafka.

Invariant: each message is stored exactly once, provided that its producer resends unacknowledged
messages before it sends new ones, and was not forgotten since it sent them first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import PathLike
from lakebed.base.layout import Buffer
from lakebed.keratin.errors import OutOfOrderSequence, ProducerFenced
from lakebed.keratin.format import (
    PRODUCER_RUN,
    PRODUCERS_HEADER,
    PRODUCERS_MAGIC,
    VERSION,
    ProducerRun,
    ProducersHeader,
)
from lakebed.keratin.headers import SEQUENCE_COUNT, Producer
from lakebed.kernels import crc32c
from lakebed.kernels.format import PRODUCER_RUN_COUNT_MAX

PRODUCERS_MAX = 100_000  # of a partition
RUNS_MAX = 5  # remembered per producer: Kafka's clients have at most this many requests in flight
_CHECKED_BYTES = PRODUCERS_HEADER.offset_of("crc32c")

Runs = tuple[ProducerRun, ...]


class Verdict(NamedTuple):
    """How many of the messages that a producer sends are already in the log.

    These are the first `known_count` messages. The first of them has the offset `base_offset`.
    """

    known_count: int
    base_offset: int


NEW = Verdict(0, 0)


def judge(runs: Runs, producer: Producer, count: int) -> Verdict:
    """Returns how many of the `count` messages from `producer.sequence` on are already in the log.

    Without remembered runs, any sequence is accepted as new. Raises `ProducerFenced` if the
    producer's epoch has ended, and `OutOfOrderSequence` if the sequence is neither the next one (0
    in a new epoch) nor in a remembered run.
    """
    if not runs:
        return NEW  # an unknown producer, or one that was forgotten
    last = runs[-1]
    if producer.epoch < last.epoch:
        raise ProducerFenced(
            f"producer {producer.producer_id}: epoch {producer.epoch} has ended: a producer "
            f"with the same id has taken over with epoch {last.epoch}"
        )
    if producer.epoch > last.epoch:
        if producer.sequence:
            raise _out_of_order(producer, expected=0)
        return NEW
    expected = _next_sequence(last)
    if producer.sequence == expected:
        return NEW
    for number in reversed(range(len(runs))):
        run = runs[number]
        index = (producer.sequence - run.first_sequence) % SEQUENCE_COUNT
        if index < run.message_count:
            known_count = min(count, _length_from(runs[number:]) - index)
            return Verdict(known_count, run.base_offset + index)
    raise _out_of_order(producer, expected=expected)


def extended(runs: Runs, new: ProducerRun) -> Runs:
    """Returns the last `RUNS_MAX` of `runs` and `new`.

    If `new` has another epoch than the last run, or does not begin at its next sequence number,
    returns only `new`. If its offsets follow those of the last run, too, the two are joined, unless
    the joined run would be too long.
    """
    last = runs[-1] if runs else None
    if last is None or (last.epoch, _next_sequence(last)) != (new.epoch, new.first_sequence):
        return (new,)  # the producer started a new epoch, or had been forgotten
    message_count = last.message_count + new.message_count
    is_near = last.base_offset + last.message_count == new.base_offset
    if is_near and message_count <= PRODUCER_RUN_COUNT_MAX:
        joined = last._replace(message_count=message_count, timestamp_ms=new.timestamp_ms)
        return (*runs[:-1], joined)
    return (*runs, new)[-RUNS_MAX:]


class Producers:
    """Remembers the last runs of consecutive messages of each producer of a partition.

    So it recognises messages that are sent again. Not thread-safe: recovery fills it, and then only
    the partition's writer uses it.
    """

    def __init__(self, runs: Iterable[ProducerRun] = ()) -> None:
        self._runs: dict[int, Runs] = {}
        for run in runs:
            self.add(run)

    def __len__(self) -> int:
        return len(self._runs)

    def runs_of(self, producer_id: int) -> Runs:
        return self._runs.get(producer_id, ())

    def add(self, run: ProducerRun) -> None:
        self._runs[run.producer_id] = extended(self.runs_of(run.producer_id), run)

    def update(self, changed: Mapping[int, Runs]) -> None:
        self._runs.update(changed)

    def all_runs(self) -> Iterator[ProducerRun]:
        for runs in self._runs.values():
            yield from runs

    def forget(self, producer_id: int) -> None:
        self._runs.pop(producer_id, None)

    def forget_before(
        self, timestamp_ms: int, *, kept: Collection[int] = (), count_max: int = PRODUCERS_MAX
    ) -> int:
        """Forgets producers that have written nothing since `timestamp_ms`.

        If more than `count_max` are known, those that have been quiet for the longest time are
        forgotten too. The producers in `kept` are never forgotten, even if more than `count_max`
        remain. Returns how many were forgotten.
        """
        count = len(self._runs)
        surplus: set[int] = set()
        if count > count_max:
            # Producers found by a scan all have the same timestamp: those found first go first.
            by_age = sorted(self._runs, key=lambda key: self._runs[key][-1].timestamp_ms)
            surplus.update(by_age[: count - count_max])
        self._runs = {
            key: runs
            for key, runs in self._runs.items()
            if key in kept or (runs[-1].timestamp_ms >= timestamp_ms and key not in surplus)
        }
        return count - len(self._runs)


def encode_producers(runs: Iterable[ProducerRun], *, base_offset: int) -> bytes:
    packed = [PRODUCER_RUN.pack(run) for run in runs]
    body = b"".join(packed)
    header = ProducersHeader(
        magic=PRODUCERS_MAGIC,
        version=VERSION,
        flags=0,
        header_length=PRODUCERS_HEADER.size,
        base_offset=base_offset,
        run_count=len(packed),
        crc32c=0,
    )
    crc = crc32c(PRODUCERS_HEADER.pack(header)[:_CHECKED_BYTES], crc32c(body))
    return PRODUCERS_HEADER.pack(header._replace(crc32c=crc)) + body


def decode_producers(data: Buffer, *, path: PathLike, base_offset: int) -> list[ProducerRun]:
    """Decodes a `.producers` file; raises `Torn` or `Corrupt` if it is damaged.

    The file is replaced atomically, so even `Torn` means damage, not an unfinished write. Raises
    `UnknownVersion` if a newer release wrote it.
    """
    if len(data) < PRODUCERS_HEADER.size:
        raise Torn(
            "the producers file is shorter than its header", path=path, offset=0, found=len(data)
        )
    header = PRODUCERS_HEADER.unpack(data)
    body = data[PRODUCERS_HEADER.size :]
    crc = crc32c(data[:_CHECKED_BYTES], crc32c(body))
    is_sound = crc == header.crc32c
    is_ours = header.header_length == PRODUCERS_HEADER.size
    if header.magic == PRODUCERS_MAGIC and header.version > VERSION and (is_sound or not is_ours):
        # A flipped bit in the version would leave the length as ours and the checksum wrong.
        raise UnknownVersion(
            "unsupported producers file version", path=path, expected=VERSION, found=header.version
        )
    expected = (PRODUCERS_MAGIC, base_offset, header.run_count * PRODUCER_RUN.size)
    if (header.magic, header.base_offset, len(body)) != expected:
        raise Corrupt(
            "not a producers file of this segment: the magic number, base offset or length differs",
            path=path,
            offset=0,
        )
    if not is_sound or not is_ours:
        raise Corrupt(
            "the checksum or the header length of the producers file is wrong",
            path=path,
            expected=header.crc32c,
            found=crc,
        )
    return list(PRODUCER_RUN.iter_unpack(body))


def _length_from(runs: Runs) -> int:
    """Returns the number of messages in all `runs`, whose sequences are consecutive.

    One append may span two runs: if a crash let only its first part be stored, other messages may
    have been appended before the producer sent the append again.
    """
    return sum(run.message_count for run in runs)


def _next_sequence(run: ProducerRun) -> int:
    return (run.first_sequence + run.message_count) % SEQUENCE_COUNT


def _out_of_order(producer: Producer, *, expected: int) -> OutOfOrderSequence:
    return OutOfOrderSequence(
        f"producer {producer.producer_id}, epoch {producer.epoch}: sequence {producer.sequence} "
        f"is out of order, expected {expected}"
    )
