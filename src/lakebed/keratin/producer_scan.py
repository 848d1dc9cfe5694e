"""Reconstructs the producers' runs by reading the records of a log."""

from __future__ import annotations

from lakebed.keratin.format import ProducerRun
from lakebed.keratin.producers import Producers
from lakebed.keratin.run import Run
from lakebed.kernels import keratin_producers


def note_producers(producers: Producers, run: Run, *, now_ms: int) -> None:
    """Adds the messages of `run`, which are records of a log, to `producers`.

    Records do not store when they were written, so `now_ms` is used as the write time.
    """
    columns = keratin_producers(
        run.buffer,
        run.positions,
        run.offsets,
        run.flags,
        run.header_lengths,
        run.payload_lengths,
    )
    for producer_id, message_count, base_offset, first_sequence, epoch in zip(
        *columns, strict=True
    ):
        producers.add(
            ProducerRun(producer_id, epoch, 0, first_sequence, message_count, base_offset, now_ms)
        )
