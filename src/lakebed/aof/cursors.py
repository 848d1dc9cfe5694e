"""The durability cursor of a log, as JSON for people and tools: how far it was asked to be durable,
and how far it is.

Advice only: it is written now and then, never between a write and its acknowledgement, and
recovery trusts the segments.
"""

from __future__ import annotations

import json
import logging

from lakebed.aof.paths import LogPaths
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import LakebedError
from lakebed.base.files import Disk, make_folders, replace_atomically

_log = logging.getLogger(__name__)


def write_cursor(
    disk: Disk, paths: LogPaths, *, requested: RecordId, durable: RecordId, written_at: int
) -> None:
    """Replace the cursor file; a failure is logged and harms nothing."""
    document = {
        "instance": paths.name,
        "requested": _position(requested),
        "durable": _position(durable),
        "written_at_ns": written_at,
    }
    try:
        if not disk.is_folder(paths.cursors):
            make_folders(disk, paths.cursors)
        path = f"{paths.cursors}/{paths.name}.json"
        replace_atomically(disk, path, json.dumps(document).encode() + b"\n")
    except LakebedError as error:
        _log.warning("the durability cursor was not written: %s", error)


def _position(position: RecordId) -> dict[str, int]:
    return {"segment_id": position.segment_index, "offset": position.segment_offset}
