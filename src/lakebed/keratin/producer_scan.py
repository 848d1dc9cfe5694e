"""Finds in the records themselves what producers wrote."""

from __future__ import annotations

from lakebed.keratin.format import ProducerRun
from lakebed.keratin.producers import Producers
from lakebed.keratin.run import Run
from lakebed.kernels import keratin_producers


def note_producers(producers: Producers, run: Run, *, now_ms: int) -> None:
    """Add every message that names its producer, as written now: when it was is not known."""
    found = keratin_producers(
        run.buffer,
        run.positions,
        run.offsets,
        run.flags,
        run.header_lengths,
        run.payload_lengths,
    )
    for producer_id, message_count, base_offset, first_sequence, epoch in zip(*found, strict=True):
        producers.add(
            ProducerRun(producer_id, epoch, 0, first_sequence, message_count, base_offset, now_ms)
        )
