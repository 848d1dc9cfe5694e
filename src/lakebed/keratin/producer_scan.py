"""What producers wrote, found in the records themselves."""

from __future__ import annotations

from lakebed.base.errors import DataError
from lakebed.keratin.format import ProducerRun, RecordFlags
from lakebed.keratin.headers import Producer, producer_of
from lakebed.keratin.producers import Producers
from lakebed.keratin.record_batch import check
from lakebed.keratin.record_batch import producer_of as producer_of_batch
from lakebed.keratin.run import Run


def note_producers(producers: Producers, run: Run, *, now_ms: int) -> None:
    """Add every message that says who wrote it; when, nobody knows, so now."""
    has_batches = any(flag & RecordFlags.BATCH for flag in set(run.flags))
    if not has_batches and not any(run.header_lengths):
        return
    for index in range(len(run.positions)):
        producer = _producer(run, index)
        if producer is not None:
            offset = int(run.offsets[index])
            producers.add(
                ProducerRun(
                    producer_id=producer.producer_id,
                    epoch=producer.epoch,
                    reserved=0,
                    first_sequence=producer.sequence,
                    message_count=run.offset_behind(index) - offset,
                    base_offset=offset,
                    timestamp_ms=now_ms,
                )
            )


def _producer(run: Run, index: int) -> Producer | None:
    try:
        if run.flags[index] & RecordFlags.BATCH:
            return producer_of_batch(check(run.payload(index), has_gaps=True))
        return producer_of(run.headers(index))
    except DataError:
        return None  # written so, for its checksum is right: readers say what is wrong with it
