"""The durability cursor: a JSON file with the end of a log's appended and of its durable records.

The file calls these two positions `requested` and `durable`. It is for people and tools only:
recovery does not read it. It is rewritten at most every 10 seconds while the log grows, and also
when a segment is sealed and on close. No append or flush waits for it.
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
    """The cursor file of one log: written on request, and periodically while the log grows."""

    def __init__(self, disk: Disk, paths: LogPaths, clock: Clock) -> None:
        self._disk = disk
        self._paths = paths
        self._clock = clock
        self._written: RecordId | None = None
        self._is_fresh = True
        self._due_ns = 0

    @property
    def is_fresh(self) -> bool:
        """Whether the last call of `step` or `write` left no write to do.

        If True, `step` must be called again after the log grows.
        """
        return self._is_fresh

    def step(self, *, requested: RecordId, durable: RecordId) -> int | None:
        """Writes the file if it is outdated and the last write was long enough ago.

        Returns the nanoseconds until the next write is due, or None if none is.
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

        If that fails, logs the error; the next write comes after the log grows.
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
