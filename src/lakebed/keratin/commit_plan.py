"""Plans one commit of one or more appends: the records to write, and the answer to each append.

This module does no I/O. It assigns offsets in the order of the queue. Messages that a producer
sends again get the offsets they already have. An append whose sequence is out of order or whose
epoch has ended is refused without affecting the others.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakebed.base.errors import InputError
from lakebed.base.layout import Buffer
from lakebed.keratin.config import Ack
from lakebed.keratin.format import ProducerRun, record_bytes
from lakebed.keratin.headers import SEQUENCE_COUNT
from lakebed.keratin.producers import NEW, Producers, Runs, Verdict, extended, judge
from lakebed.keratin.record_batch import rewrite_first_offset
from lakebed.keratin.segment import Numbers
from lakebed.keratin.writer_requests import Append, Appended


@dataclass
class CommitPlan:
    """The records that one commit writes, as columns, and the result of each append."""

    next_offset: int  # the offset after the planned messages
    answers: list[Appended | InputError] = field(default_factory=list)  # one for each append
    payloads: Sequence[Buffer] = ()
    headers: Sequence[Buffer | None] | None = None
    offsets: int | array[int] = 0
    timestamps_ms: Numbers = 0
    flags: Numbers = 0
    size: int = 0
    is_sync_wanted: bool = False
    changed: dict[int, Runs] = field(default_factory=dict)  # by producer id

    def record_offsets(self) -> range | array[int]:
        if isinstance(self.offsets, int):
            return range(self.offsets, self.offsets + len(self.payloads))
        return self.offsets


@dataclass(frozen=True, slots=True)
class _Accepted:
    append: Append
    base_offset: int
    skip: int  # messages that are already in the log

    @property
    def payloads(self) -> Sequence[Buffer]:
        return self.append.payloads[self.skip :] if self.skip else self.append.payloads


def plan_commit(
    appends: Sequence[Append],
    *,
    next_offset: int,
    durable_offset: int,
    producers: Producers,
    now_ms: int,
) -> CommitPlan:
    plan = CommitPlan(next_offset)
    accepted: list[_Accepted] = []
    for append in appends:
        try:
            verdict = _judge(append, plan, producers)
        except InputError as error:
            plan.answers.append(error)
            continue
        known_count = verdict.known_count
        base_offset = verdict.base_offset if known_count else plan.next_offset
        end = _end(append, known_count, plan, producers)
        if append.ack is Ack.AFTER_FSYNC and end > durable_offset:
            plan.is_sync_wanted = True
        if known_count < append.message_count:
            accepted.append(_Accepted(append, plan.next_offset, known_count))
            _note_producer(append, known_count, plan, producers, now_ms)
            plan.next_offset += append.message_count - known_count
        plan.answers.append(Appended(base_offset, append.message_count))
    if accepted:
        _lay_out(accepted, plan)
    return plan


def _end(append: Append, known_count: int, plan: CommitPlan, producers: Producers) -> int:
    """Returns the offset up to which the log must be durable for `Ack.AFTER_FSYNC`.

    If all messages of the append are already in the log, this is the offset after the producer's
    last message. Otherwise it is the offset after the messages that the append adds.
    """
    if append.producer is None or known_count < append.message_count:
        return plan.next_offset + append.message_count - known_count
    runs = _runs(append.producer.producer_id, plan, producers)
    return max(run.base_offset + run.message_count for run in runs)


def _judge(append: Append, plan: CommitPlan, producers: Producers) -> Verdict:
    if append.producer is None:
        return NEW
    runs = _runs(append.producer.producer_id, plan, producers)
    verdict = judge(runs, append.producer, append.message_count)
    if append.is_batch and 0 < verdict.known_count < append.message_count:
        # A batch record is stored as a whole, so other messages must have used these sequences.
        raise InputError(
            f"producer {append.producer.producer_id}: some messages of the batch that begins with "
            f"sequence {append.producer.sequence} are already in the log, but not all of them; "
            "a batch that is sent again must have the same messages as the first time"
        )
    return verdict


def _note_producer(
    append: Append, known_count: int, plan: CommitPlan, producers: Producers, now_ms: int
) -> None:
    producer = append.producer
    if producer is None:
        return
    run = ProducerRun(
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        reserved=0,
        first_sequence=(producer.sequence + known_count) % SEQUENCE_COUNT,
        message_count=append.message_count - known_count,
        base_offset=plan.next_offset,
        timestamp_ms=now_ms,
    )
    runs = _runs(producer.producer_id, plan, producers)
    plan.changed[producer.producer_id] = extended(runs, run)


def _runs(producer_id: int, plan: CommitPlan, producers: Producers) -> Runs:
    runs = plan.changed.get(producer_id)
    return producers.runs_of(producer_id) if runs is None else runs


def _lay_out(accepted: Sequence[_Accepted], plan: CommitPlan) -> None:
    first = accepted[0]
    if len(accepted) == 1 and not first.skip and not first.append.is_batch:
        append = first.append
        plan.payloads, plan.headers = append.payloads, append.headers
        plan.timestamps_ms, plan.flags = append.timestamps_ms, append.flags
        plan.offsets, plan.size = first.base_offset, append.size
        return
    payloads: list[Buffer] = []
    headers: list[Buffer | None] = []
    offsets, timestamps_ms, flags = array("Q"), array("Q"), array("H")
    for item in accepted:
        append, count = item.append, len(item.payloads)
        if append.is_batch:
            payloads.append(rewrite_first_offset(append.payloads[0], item.base_offset))
        else:
            payloads.extend(item.payloads)
        headers.extend(append.headers[item.skip :] if append.headers else [None] * count)
        offsets.extend(range(item.base_offset, item.base_offset + count))
        timestamps_ms.extend(_column(append.timestamps_ms, item.skip, count))
        flags.extend(_column(append.flags, item.skip, count))
    plan.payloads, plan.headers = payloads, headers if any(headers) else None
    plan.offsets, plan.timestamps_ms, plan.flags = offsets, timestamps_ms, flags
    plan.size = sum(
        record_bytes(len(block or b""), len(payload))
        for payload, block in zip(payloads, headers, strict=True)
    )


def _column(numbers: Numbers, skip: int, count: int) -> Sequence[int]:
    return [numbers] * count if isinstance(numbers, int) else numbers[skip:]
