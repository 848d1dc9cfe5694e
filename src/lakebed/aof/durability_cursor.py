"""The durability cursor: a JSON file with the end of a log's appended and of its durable records.

The file calls these two positions `requested` and `durable`. It is for people and tools only:
recovery does not read it. While records become durable, it is rewritten at most once in 10 seconds;
it is also rewritten when a segment is sealed and when the log is closed. No append or flush waits
for it.
"""

from __future__ import annotations

import json
import logging

from lakebed.aof.paths import LogPaths
from lakebed.aof.record_id import RecordId
from lakebed.base.clock import NS_PER_S, Clock
from lakebed.base.errors import LakebedError
from lakebed.base.files import Disk, make_folders, replace_atomically

_log = logging.getLogger(__name__)
PERIOD_NS = 10 * NS_PER_S


class DurabilityCursor:
    """The cursor file of one log, which is written on request and while records become durable."""

    def __init__(self, disk: Disk, paths: LogPaths, clock: Clock) -> None:
        self._disk = disk
        self._paths = paths
        self._clock = clock
        self._written: RecordId | None = None
        self._is_fresh = True
        self._due_ns = 0

    @property
    def is_fresh(self) -> bool:
        """Whether the last call of `step` or `write` left nothing to write.

        A write that failed counts as done. If True, `step` must be called again after more records
        become durable.
        """
        return self._is_fresh

    def step(self, *, requested: RecordId, durable: RecordId) -> int | None:
        """Writes the file if it is outdated and the last write was at least `PERIOD_NS` ago.

        If the file is outdated but was written more recently, returns the nanoseconds until the
        next write is due. Otherwise returns None.
        """
        if durable == self._written:
            self._is_fresh = True
            return None
        self._is_fresh = False
        delay_ns = self._due_ns - self._clock.monotonic_ns()
        if delay_ns > 0:
            return delay_ns
        self.write(requested=requested, durable=durable)
        return None

    def write(self, *, requested: RecordId, durable: RecordId) -> None:
        """Replaces the file with these two positions.

        If that fails, only logs the error; `step` does not write the file again until `durable`
        has changed.
        """
        self._written = durable
        self._is_fresh = True
        self._due_ns = self._clock.monotonic_ns() + PERIOD_NS
        document = {
            "instance": self._paths.name,
            "requested": _position(requested),
            "durable": _position(durable),
            "written_at_ns": self._clock.wall_ns(),
        }
        folder = self._paths.cursors
        try:
            if not self._disk.is_folder(folder):
                make_folders(self._disk, folder)
            path = f"{folder}/{self._paths.name}.json"
            replace_atomically(self._disk, path, json.dumps(document).encode() + b"\n")
        except LakebedError as error:
            _log.warning("the durability cursor could not be written: %s", error)


def _position(position: RecordId) -> dict[str, int]:
    return {"segment_id": position.segment_index, "offset": position.segment_offset}
