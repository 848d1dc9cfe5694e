"""`lakebed topic produce`: appends lines of standard input as messages."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.interrupts import HeldInterrupts
from lakebed.cli.invocation import invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Column, Text, Value, counted, objects
from lakebed.cli.topic_arguments import TopicName, require_topic, text_bytes

if TYPE_CHECKING:
    from lakebed.api.surface import Topic
    from lakebed.base.errors import LakebedError
    from lakebed.cli.places import Reopen
    from lakebed.cli.topic_appender import TopicAppender

_RETRY_S = 1.0  # how long a call is retried before looking for a new process with the store

SeparatorOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Split each line into a key and a value at the first TEXT. Default: no keys.",
    ),
]
NullOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="With --key-separator: if the value of a line is TEXT, append a message without a "
        "value, which deletes the key in a compacted topic.",
    ),
]
PartitionOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Append to this partition. Default: choose the partition by the key; without keys, "
        "batches of lines go to the partitions in turn.",
    ),
]
AckOption = Annotated[
    str | None,
    typer.Option(
        metavar="LEVEL",
        help="When messages are acknowledged: after_fsync or after_write. "
        "Default: the setting of the topic.",
    ),
]
CreateOption = Annotated[
    bool,
    typer.Option("--create", help="Create the topic with one partition if it does not exist."),
]


def produce(
    context: typer.Context,
    topic: TopicName,
    key_separator: SeparatorOption = None,
    null_value: NullOption = None,
    partition: PartitionOption = None,
    ack: AckOption = None,
    create: CreateOption = False,
) -> None:
    """Append lines from standard input, one message per line, and wait until they are acknowledged.

    Newlines are removed. Without --key-separator, an empty line is an empty message. At a line that
    is too long for a message, or that lacks the key separator, the command ends with an error that
    names the line; the messages before that line are kept.

    \b
    Examples:
      Produce two messages:
        printf 'one\\ntwo\\n' | lakebed topic produce orders
      Produce messages with keys:
        printf 'ada:one\\nbob:two\\n' | lakebed topic produce orders --key-separator :
    """
    from lakebed.base.errors import InputError, LakebedError
    from lakebed.cli.input_lines import BadLine, standard_input
    from lakebed.cli.message_lines import LineFormat, message_batches
    from lakebed.cli.topic_appender import TopicAppender, message_bytes_max
    from lakebed.keratin.config import Ack
    from lakebed.keratin.paths import check_topic_name

    run = invocation(context)
    if key_separator == "":
        raise InputError("--key-separator must not be empty")
    if null_value is not None and key_separator is None:
        raise InputError("--null-value can only be used with --key-separator")
    level = None if ack is None else Ack.parse(ack).require_possible()
    advice = f"; create it with lakebed topic create {topic}, or with --create"
    if create:
        check_topic_name(topic)
    else:
        require_topic(run, topic, advice=advice)
    shared = run.place.shared(create=create, retry_s=_RETRY_S)
    with (
        shared.store as store,
        ExitStack() as later,
        Progress("produce") as progress,
        HeldInterrupts() as interrupts,
    ):
        target = store.topic(topic) if create else store.topics.open(topic)
        reopen = None if shared.reopen is None else partial(_reopened, shared.reopen, topic, later)
        appender = TopicAppender(target, reopen=reopen, partition=partition, ack=level)
        line_format = LineFormat(
            message_bytes_max=message_bytes_max(target.config, has_keys=key_separator is not None),
            separator=None if key_separator is None else text_bytes(key_separator),
            null_value=None if null_value is None else text_bytes(null_value),
        )
        try:
            for messages in message_batches(standard_input(interrupts), line_format):
                appender.append(messages)
                progress.count(appender.count, "messages")
            appender.finish()
        except BadLine as error:
            appender.finish()
            raise BadLine(f"{error}; kept before it: {_summary(appender)}") from error
        except LakebedError:
            appender.count_rest()
            run.output.note(f"{topic}: acknowledged before the error: {_summary(appender)}")
            raise
    run.output.show(
        Value("topic", topic),
        Value("messages", appender.count),
        Value("partitions", objects(APPENDED, sorted(appender.partitions.items()))),
        Text(f"{topic}: appended {_summary(appender)}"),
    )


def _reopened(reopen: Reopen, topic: str, later: ExitStack, error: LakebedError) -> Topic:
    """Opens the store again after `error`, and returns the topic. `later` will close the store."""
    store = reopen(error)
    later.callback(store.close)
    return store.topics.open(topic)


def _summary(appender: TopicAppender) -> str:
    """Formats the count and the last offset of each partition: `3 messages, up to 0:1, 1:0`."""
    ends = [f"{number}:{each.last_offset}" for number, each in sorted(appender.partitions.items())]
    return counted(appender.count, "message") + (f", up to {', '.join(ends)}" if ends else "")


APPENDED = (
    Column("partition", lambda numbered: numbered[0]),
    Column("messages", lambda numbered: numbered[1].messages),
    Column("first_offset", lambda numbered: numbered[1].first_offset),
    Column("last_offset", lambda numbered: numbered[1].last_offset),
)
"""The JSON members of a row, which is a partition's number and its `PartitionCount`."""
