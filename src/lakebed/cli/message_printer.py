"""Prints messages as lines, optionally with columns and the key before the value, or as JSON.

A line ends with the unchanged value, or the text for a missing value, and a newline. With `--json`,
each line is an object for one message, so that a topic of any length can be processed as a stream.
A key or a value that is not UTF-8 is then printed as `key_base64` or `value_base64`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from lakebed.cli.output import Output

if TYPE_CHECKING:  # what the help shows needs no engine
    from lakebed.keratin.headers import Header
    from lakebed.keratin.message import Message
    from lakebed.keratin.message_batch import MessageBatch
    from lakebed.store.leased_message import LeasedMessage


class Show(Enum):
    """The columns that can be printed before a message."""

    OFFSETS = "offsets"
    TIMES = "times"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The format of a message as a line."""

    show: Sequence[Show] = ()
    key_separator: bytes | None = None  # None: keys are not printed
    null_value: bytes = b""


class MessagePrinter:
    """Prints messages to one output."""

    def __init__(self, output: Output, shape: Shape) -> None:
        self._output = output
        self._shape = shape
        # In the order of the class, not of the options.
        self._show = [column for column in Show if column in set(shape.show)]

    def batch(self, partition: int, batch: MessageBatch) -> None:
        """Prints a batch. Printing only values copies them once and creates no `Message`
        objects."""
        if self._output.as_json or self._show or self._shape.key_separator is not None:
            self._output.write(b"".join(self._shown(partition, message) for message in batch))
            return
        parts: list[bytes | memoryview] = []
        for value in batch.values():
            parts += (self._shape.null_value if value is None else value, b"\n")
        self._output.write(b"".join(parts))

    def leased(self, messages: Iterable[LeasedMessage]) -> None:
        self._output.write(
            b"".join(self._shown(message.partition, message) for message in messages)
        )

    def _shown(self, partition: int, message: Message | LeasedMessage) -> bytes:
        if self._output.as_json:
            document = message_members(partition, message)
            return json.dumps(document).encode("ascii") + b"\n"
        columns = {
            Show.OFFSETS: f"{partition}:{message.offset}",
            Show.TIMES: str(message.timestamp_ms),
        }
        parts = ["".join(f"{columns[column]}\t" for column in self._show).encode("ascii")]
        if self._shape.key_separator is not None:
            parts += [message.key or b"", self._shape.key_separator]
        parts += [self._shape.null_value if message.value is None else message.value, b"\n"]
        return b"".join(parts)


def message_members(partition: int, message: Message | LeasedMessage) -> dict[str, object]:
    """Returns the JSON members of a message."""
    document: dict[str, object] = {
        "partition": partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        **_bytes_members("key", message.key),
        **_bytes_members("value", message.value),
        "headers": [_header_members(header) for header in message.headers],
    }
    delivery_count = getattr(message, "delivery_count", None)
    if delivery_count is not None:
        document["delivery_count"] = delivery_count
    return document


def _bytes_members(name: str, data: bytes | None) -> dict[str, object]:
    """Returns one JSON member: `name` with the data as text, or null if the data is None; if the
    data is not UTF-8, `name_base64` instead."""
    try:
        return {name: None if data is None else data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data or b"").decode("ascii")}


def _header_members(header: Header) -> dict[str, object]:
    name, value = header
    return {"name": name, **_bytes_members("value", None if value is None else bytes(value))}
