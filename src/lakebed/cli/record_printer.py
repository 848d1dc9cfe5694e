"""Prints records as lines, optionally with columns before them, or as JSON.

A line ends with the unchanged payload and a newline. With `--json`, each line is an object for one
record, so that a log of any length can be processed as a stream. A payload that is not UTF-8 is
then printed as `payload_base64`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from lakebed.cli.output import Output

if TYPE_CHECKING:  # what the help shows needs no engine
    from lakebed.aof.record_batch import Record, RecordBatch


class Show(Enum):
    """The columns that can be printed before a payload."""

    IDS = "ids"
    TIMES = "times"
    EXT_IDS = "ext-ids"


class RecordPrinter:
    """Prints records to one output."""

    def __init__(self, output: Output, *, show: Iterable[Show] = ()) -> None:
        self._output = output
        # In the order of the class, not of the options.
        self._show = [column for column in Show if column in set(show)]

    def batch(self, batch: RecordBatch) -> None:
        """Prints a batch. Printing only payloads copies them once and creates no `Record`
        objects."""
        if self._output.as_json or self._show:
            self.records(batch)
            return
        parts: list[bytes | memoryview] = []
        for payload in batch.payloads():
            parts += (payload, b"\n")
        self._output.write(b"".join(parts))

    def records(self, records: Iterable[Record]) -> None:
        shown = self._document if self._output.as_json else self._line
        self._output.write(b"".join(map(shown, records)))

    def _line(self, record: Record) -> bytes:
        columns = {
            Show.IDS: str(record.record_id),
            Show.TIMES: str(record.timestamp),
            Show.EXT_IDS: str(record.ext_id),
        }
        before = "".join(f"{columns[column]}\t" for column in self._show)
        return before.encode("ascii") + record.payload + b"\n"

    def _document(self, record: Record) -> bytes:
        document: dict[str, object] = {
            "record_id": str(record.record_id),
            "timestamp_ns": record.timestamp,
            "ext_id": record.ext_id,
        }
        try:
            document["payload"] = record.payload.decode("utf-8")
        except UnicodeDecodeError:
            document["payload_base64"] = base64.b64encode(record.payload).decode("ascii")
        return json.dumps(document).encode("ascii") + b"\n"
