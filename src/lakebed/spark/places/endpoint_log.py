"""A log of another process."""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.aof.batch import RecordBatch
from lakebed.aof.manifest.paths import stream_name
from lakebed.aof.record_id import RecordId
from lakebed.base.units import MIB
from lakebed.client.log import RemoteLog
from lakebed.store.split_points import Bounds, Mark, log_bounds, log_marks

FETCH_BYTES = 8 * MIB


class EndpointLog:
    """An `OpenLog` of a store elsewhere."""

    def __init__(self, log: RemoteLog) -> None:
        self._log = log
        self.name = log.name
        self.log_id = stream_name(log.stream_id)

    def bounds(self) -> Bounds:
        return log_bounds(*self._log.segments_and_end())

    def bases(self) -> dict[int, int]:
        return {info.segment_id: info.base_offset for info in self._log.segments_and_end()[0]}

    def marks(self, start: int, end: int) -> list[Mark]:
        segments, durable_end = self._log.segments_and_end()
        return log_marks(segments, lambda _: (), durable_end=durable_end, start=start, end=end)

    def position_for_time(self, timestamp_ns: int) -> int:
        return int(self._log.seek_timestamp(timestamp_ns))

    def read_batches(self, start: int, end: int) -> Iterator[RecordBatch]:
        return self._log.read_batches(RecordId(start), RecordId(end), batch_bytes_max=FETCH_BYTES)
