"""What `lakebed group` prints about consumer groups: the same facts as lines, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from lakebed.cli.moments import moment_text
from lakebed.cli.output import counted, table
from lakebed.cli.topic_messages import message_document

if TYPE_CHECKING:
    from lakebed.store.dead_letters import DeadLetter
    from lakebed.stroma.description import GroupPartition

_NS_PER_MS = 1_000_000
_VALUE_CHARACTERS_MAX = 60


class GroupRow(NamedTuple):
    """One group of one topic; `problem` is why there is nothing to say of it."""

    topic: str
    group: str
    partitions: int
    lag: int | None
    in_flight: int | None
    problem: str | None = None


def list_lines(rows: Sequence[GroupRow]) -> list[str]:
    heading = ("topic", "group", "partitions", "lag", "in flight")
    cells = [
        (row.topic, row.group, str(row.partitions), _number(row.lag), _number(row.in_flight))
        for row in rows
    ]
    problems = [f"{row.topic} {row.group}: {row.problem}" for row in rows if row.problem]
    return [*table(heading, cells), *problems]


def list_document(rows: Sequence[GroupRow]) -> dict[str, object]:
    return {"groups": [row._asdict() for row in rows]}


def describe_lines(found: Mapping[int, GroupPartition]) -> list[str]:
    heading = (
        "partition",
        "acked until",
        "high watermark",
        "lag",
        "in flight",
        "waiting",
        "exhausted",
        "acked ahead",
    )
    rows = [
        (
            str(number),
            str(one.acked_until),
            str(one.high_watermark),
            str(one.lag),
            str(one.in_flight),
            str(one.waiting),
            str(one.exhausted),
            str(one.settled_ahead),
        )
        for number, one in found.items()
    ]
    problems = [
        f"partition {number}: {problem}"
        for number, one in found.items()
        for problem in one.problems
    ]
    return [*table(heading, rows), *problems]


def describe_document(
    topic: str, group: str, found: Mapping[int, GroupPartition]
) -> dict[str, object]:
    return {
        "topic": topic,
        "group": group,
        "partitions": [
            {"partition": number, **asdict(one), "problems": list(one.problems)}
            for number, one in found.items()
        ],
    }


def lag_lines(lag: Mapping[int, int]) -> list[str]:
    rows = [(str(number), str(count)) for number, count in lag.items()]
    return table(("partition", "lag"), [*rows, ("all", str(sum(lag.values())))])


def lag_document(topic: str, group: str, lag: Mapping[int, int]) -> dict[str, object]:
    partitions = [{"partition": number, "lag": count} for number, count in lag.items()]
    total = sum(lag.values())
    return {"topic": topic, "group": group, "lag": total, "partitions": partitions}


def moved_lines(topic: str, group: str, moved: Mapping[int, int]) -> list[str]:
    return [
        f"{topic} {group}: partition {number} goes on at {offset}"
        for number, offset in moved.items()
    ]


def moved_document(topic: str, group: str, moved: Mapping[int, int]) -> dict[str, object]:
    partitions = [{"partition": number, "offset": offset} for number, offset in moved.items()]
    return {"topic": topic, "group": group, "partitions": partitions}


def letter_lines(topic: str, group: str, letters: Sequence[DeadLetter]) -> list[str]:
    heading = ("from", "deliveries", "written", "key", "value")
    rows = [
        (
            f"{letter.origin.partition}:{letter.origin.offset}",
            str(letter.origin.delivery_count),
            moment_text(letter.message.timestamp_ms * _NS_PER_MS),
            _text(letter.message.key),
            _text(letter.message.value),
        )
        for letter in letters
    ]
    count = counted(len(letters), "dead letter")
    return [*(table(heading, rows) if rows else ()), f"{topic} {group}: {count}"]


def letter_document(topic: str, group: str, letters: Sequence[DeadLetter]) -> dict[str, object]:
    return {
        "topic": topic,
        "group": group,
        "dead_letters": [
            {
                **message_document(letter.origin.partition, letter.message),
                "offset": letter.origin.offset,
                "delivery_count": letter.origin.delivery_count,
            }
            for letter in letters
        ],
    }


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _text(data: bytes | None) -> str:
    """The beginning of it, as far as it is text."""
    if data is None:
        return "-"
    text = data[:_VALUE_CHARACTERS_MAX].decode("utf-8", "backslashreplace")
    return text + ("…" if len(data) > _VALUE_CHARACTERS_MAX else "")
