"""A log behind the HTTP API: its segments as they are stored, decoded here.

A compressed segment that cannot be read here may have another copy there: the rest of what is
wanted of it then comes as pages of records, which the node reads from whatever it has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from lakebed.aof.batch import RecordBatch
from lakebed.aof.damage import DamagePolicy
from lakebed.aof.manifest.paths import stream_name
from lakebed.aof.record_id import RecordId
from lakebed.aof.segment_reading import SegmentReading
from lakebed.aof.span import Span, plan
from lakebed.aof.view import SegmentInfo
from lakebed.aof.walk import Walk
from lakebed.base.errors import DataError
from lakebed.base.files.handles import Handles
from lakebed.base.runner import Runner
from lakebed.client.log import RemoteLog
from lakebed.spark.places.endpoint_segment import FETCH_BYTES, open_remote_segment
from lakebed.store.split_points import Bounds, Mark, log_bounds, log_marks

_log = logging.getLogger(__name__)


class EndpointLog:
    """An `OpenLog` of a store elsewhere."""

    def __init__(self, log: RemoteLog, runner: Runner, *, fetch_bytes: int = FETCH_BYTES) -> None:
        self._log = log
        self._runner = runner
        self._fetch_bytes = fetch_bytes
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
        segments, durable_end = self._log.segments_and_end()
        return self._batches(
            plan(segments, durable_end, start=RecordId(start), end=RecordId(end)), RecordId(end)
        )

    def _batches(self, spans: Sequence[Span], end: RecordId) -> Iterator[RecordBatch]:
        opened = Handles(self._open, _key, mutex=self._runner.mutex(), count_max=1)
        try:
            for span in spans:
                walk = Walk(
                    span,
                    lease=opened.lease,
                    policy=DamagePolicy(skip=False),
                    batch_bytes_max=self._fetch_bytes,
                )
                yield from self._walked(span, walk, end)
        finally:
            opened.close()

    def _walked(self, span: Span, walk: Walk, end: RecordId) -> Iterator[RecordBatch]:
        """What was read before the failure is not read again."""
        position = RecordId.from_parts(span.info.segment_id, span.start)
        try:
            for batch in walk:
                yield batch
                position = batch.end
        except DataError as error:
            if not span.info.tier:
                raise
            _log.warning("%s: read as records, for it is damaged: %s", self.name, error)
        else:
            return
        behind = RecordId.from_parts(span.info.segment_id + 1, 0)
        yield from self._log.read_batches(position, min(end, behind))

    def _open(self, info: SegmentInfo) -> SegmentReading:
        return open_remote_segment(self._log, info, self._runner)


def _key(info: SegmentInfo) -> int:
    return info.segment_id
