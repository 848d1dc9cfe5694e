"""`lakebed group`: the consumer groups of topics.

`list`, `describe`, `lag` and `dead-letters` (without `--redrive`) take no lock; while another
process writes, they show what it has written to its files. The other commands open the store, or
are run by the process that has it open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.message_printer import message_members
from lakebed.cli.report import Column, Rows, Text, Value, counted, members_of, objects
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, open_to_read, quiet
from lakebed.cli.topic_arguments import (
    GroupName,
    TopicName,
    YesOption,
    open_topic_to_write,
    require_yes,
)
from lakebed.cli.values import moment_ms_text, parse_moment_ms

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.api.read_surface import ReadableGroup, ReadableTopic
    from lakebed.api.surface import Group, Partition, Topic
    from lakebed.store.dead_letters import DeadLetter
    from lakebed.stroma.group import HeldRange

LETTERS_MAX = 1000  # listed by default
LEASES_MAX = 1000
_VALUE_CHARACTERS_MAX = 60

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Inspect consumer groups, reset their positions, and redrive dead letters.",
)

Place = Callable[["Partition"], int]


@app.command("list")
def list_groups(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="The name of the topic. Default: all topics."),
    ] = None,
) -> None:
    """List the groups with their lag: the number of messages that are not settled.

    A message is settled when it is acknowledged, or is in the dead-letter topic.

    \b
    Examples:
      List all groups:
        lakebed group list
      List the groups of a topic:
        lakebed group list orders
    """
    from lakebed.store.topics import REDRIVE_PREFIX

    run = invocation(context)
    with quiet("lakebed.stroma"), open_to_read(run) as store:
        names = store.topics.names() if topic is None else [topic]
        rows = [
            _row(opened, group)
            for opened in map(store.topics.open, names)
            for group in opened.groups()
            if not group.startswith(REDRIVE_PREFIX)  # ours, to send dead letters back
        ]
    problems = [f"{row.topic} {row.group}: {row.problem}" for row in rows if row.problem]
    run.output.show(Rows("groups", GROUPS, rows), Text(*problems))
    if problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def describe(context: typer.Context, topic: TopicName, group: GroupName) -> None:
    """Show the state of a group in each partition: its position, its lag and its leased messages.

    The lag is the number of messages that are not settled; all messages before the position are
    settled. A message is settled when it is acknowledged, or is in the dead-letter topic.

    \b
    Examples:
      Describe a group:
        lakebed group describe orders billing
    """
    run = invocation(context)
    with quiet("lakebed.stroma"), open_to_read(run) as store:
        partitions = require_group(store.topics.open(topic), group).describe()
    problems = [
        f"partition {number}: {problem}"
        for number, partition in partitions.items()
        for problem in partition.problems
    ]
    run.output.show(
        Value("topic", topic),
        Value("group", group),
        Value(
            "partitions",
            [
                {"partition": number, **members_of(partition)}
                for number, partition in partitions.items()
            ],
        ),
        Rows("", GROUP_PARTITIONS, partitions.items()),
        Text(*problems),
    )
    if problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def lag(context: typer.Context, topic: TopicName, group: GroupName) -> None:
    """Show how many messages of a group are not settled, by partition and in total.

    A message is settled when it is acknowledged, or is in the dead-letter topic.

    \b
    Examples:
      Show the lag of a group:
        lakebed group lag orders billing
    """
    run = invocation(context)
    with quiet("lakebed.stroma"), open_to_read(run) as store:
        lags = require_group(store.topics.open(topic), group).lag()
    total = sum(lags.values())
    run.output.show(
        Value("topic", topic),
        Value("group", group),
        Value("lag", total),
        Value("partitions", objects(LAGS, lags.items())),
        Rows("", LAGS, [*lags.items(), ("all", total)]),
    )


@app.command()
def leases(
    context: typer.Context,
    topic: TopicName,
    group: GroupName,
    partition: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="List leases of this partition only. Default: all partitions."
        ),
    ] = None,
    count_max: Annotated[
        int, typer.Option("--max", metavar="N", min=1, help="List at most N ranges of messages.")
    ] = LEASES_MAX,
) -> None:
    """List leased messages, as ranges of offsets, with their deadlines and delivery counts.

    \b
    Examples:
      List all leases of a group:
        lakebed group leases orders billing
      List the leases of a partition:
        lakebed group leases orders billing --partition 0
    """
    run = invocation(context)
    with _open_group(run, topic, group) as (_, opened):
        held = opened.leases(max_leases=count_max, partition=partition)
    run.output.show(
        Value("topic", topic),
        Value("group", group),
        Value("leases", held),
        Rows("", LEASES, held),
    )


@app.command()
def release(
    context: typer.Context,
    topic: TopicName,
    group: GroupName,
    partition: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Release leases of this partition only. Default: all partitions.",
        ),
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="With --partition: release only the message at this offset."
        ),
    ] = None,
) -> None:
    """End leases, so that other consumers can get the messages immediately.

    A consumer that is still processing such a message can no longer acknowledge it.

    \b
    Examples:
      Release all leases of a group:
        lakebed group release orders billing
      Release one message:
        lakebed group release orders billing --partition 0 --offset 17
    """
    run = invocation(context)
    with _open_group(run, topic, group) as (_, opened):
        count = opened.release(partition=partition, offset=offset)
    run.output.show(
        Value("topic", topic),
        Value("group", group),
        Value("released", count),
        Text(f"{topic} {group}: released {counted(count, 'message')}"),
    )


@app.command()
def reset(
    context: typer.Context,
    topic: TopicName,
    group: GroupName,
    to_beginning: Annotated[
        bool,
        typer.Option(
            "--to-beginning", help="Move to the oldest message: deliver all messages again."
        ),
    ] = False,
    to_end: Annotated[
        bool, typer.Option("--to-end", help="Move to the end: deliver only new messages.")
    ] = False,
    to_offset: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Move to this offset of the partition given with --partition, which is required "
            "if the topic has several partitions.",
        ),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Move to the first message at or after this time: ISO 8601, or ms since 1970.",
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Move the group in this partition only. Default: in all partitions."
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create the group if it does not exist.")
    ] = False,
) -> None:
    """Move a group to another position.

    Messages before the position count as acknowledged; messages from it on are delivered again.

    \b
    Examples:
      Deliver everything again:
        lakebed group reset orders billing --to-beginning
      Continue at an offset:
        lakebed group reset orders billing --to-offset 17 --partition 0
    """
    from lakebed.base.errors import InputError

    run = invocation(context)
    if [to_beginning, to_end, to_offset is not None, to_time is not None].count(True) != 1:
        raise InputError("give exactly one of --to-beginning, --to-end, --to-offset and --to-time")
    moment_ms = None if to_time is None else parse_moment_ms(to_time)

    def place(each: Partition) -> int:
        if moment_ms is not None:
            return each.offset_for_time(moment_ms)
        if to_offset is not None:
            return to_offset
        return each.high_watermark() if to_end else each.start_offset()

    with _open_group(run, topic, group, create=create) as (target, opened):
        moved = _moved(
            target, opened, place, partition=partition, needs_partition=to_offset is not None
        )
    run.output.show(
        Value("topic", topic),
        Value("group", group),
        Value("partitions", objects(OFFSETS, moved.items())),
        Text(
            *(
                f"{topic} {group}: partition {number} continues at {offset}"
                for number, offset in moved.items()
            )
        ),
    )


@app.command()
def dead_letters(
    context: typer.Context,
    topic: TopicName,
    group: GroupName,
    redrive: Annotated[
        bool,
        typer.Option(
            "--redrive",
            help="Send the dead letters back to their original partitions. Default: list them.",
        ),
    ] = False,
    count_max: Annotated[
        int | None,
        typer.Option(
            "--max",
            metavar="N",
            min=1,
            help="List or redrive at most N dead letters. Default: list 1000, or redrive 1000000.",
        ),
    ] = None,
) -> None:
    """List or redrive the dead letters of a group: messages that were delivered too many times.

    Redriving appends dead letters to the topic again, as new messages for all its groups. They are
    then no longer listed.

    \b
    Examples:
      List dead letters:
        lakebed group dead-letters orders billing
      Send up to 100 of them back:
        lakebed group dead-letters orders billing --redrive --max 100
    """
    run = invocation(context)
    if redrive:
        with _open_group(run, topic, group) as (_, opened):
            count = opened.redrive(**({} if count_max is None else {"max_messages": count_max}))
        run.output.show(
            Value("topic", topic),
            Value("group", group),
            Value("redriven", count),
            Text(f"{topic} {group}: sent back {counted(count, 'dead letter')}"),
        )
        return
    with quiet("lakebed.stroma"), open_to_read(run) as store:
        require_group(store.topics.open(topic), group)
        letters = store.dead_letters(topic, group, max_messages=count_max or LETTERS_MAX)
    run.output.show(
        Value("topic", topic),
        Value("group", group),
        Value("dead_letters", [_letter_members(letter) for letter in letters]),
        Rows("", LETTERS, letters, hides_empty=True),
        Text(f"{topic} {group}: {counted(len(letters), 'dead letter')}"),
    )


@app.command()
def delete(
    context: typer.Context, topic: TopicName, group: GroupName, yes: YesOption = False
) -> None:
    """Delete a group and its acknowledgements. Requires --yes.

    \b
    Examples:
      Delete a group:
        lakebed group delete orders billing --yes
    """
    run = invocation(context)
    require_yes(yes, what=f"this deletes the group {group} of {topic} with its acknowledgements")
    with open_topic_to_write(run, topic) as store:
        store.topics.open(topic).delete_group(group)
    run.output.show(
        Value("topic", topic),
        Value("group", group),
        Value("deleted", True),
        Text(f"{topic} {group}: deleted"),
    )


def require_group(topic: ReadableTopic, group: str) -> ReadableGroup:
    """Returns the group. Raises `NotFound` if the topic has no such group; never creates it."""
    from lakebed.base.errors import NotFound

    if group not in topic.groups():
        raise NotFound(f"the topic {topic.name} has no group {group}")
    return topic.group(group)


def _row(topic: ReadableTopic, group: str) -> GroupRow:
    from lakebed.base.errors import DataError

    count = topic.partition_count
    try:
        partitions = topic.group(group).describe().values()
    except DataError as error:
        # One damaged group does not hide the others.
        return GroupRow(topic.name, group, count, None, None, str(error))
    return GroupRow(
        topic.name,
        group,
        count,
        sum(each.lag for each in partitions),
        sum(each.in_flight for each in partitions),
    )


@contextmanager
def _open_group(
    run: Invocation, topic: str, group: str, *, create: bool = False
) -> Iterator[tuple[Topic, Group]]:
    """Opens the topic and the group for writing.

    Raises `NotFound` if there is no such group, unless `create` is set.
    """
    with open_topic_to_write(run, topic) as store:
        target = store.topics.open(topic)
        if not create:
            require_group(target, group)
        yield target, target.group(group)


def _moved(
    topic: Topic,
    group: Group,
    place: Place,
    *,
    partition: int | None,
    needs_partition: bool,
) -> dict[int, int]:
    """Moves the group, in `partition` or by default in all partitions, to the offset that `place`
    returns for the partition. Returns the new offsets by partition.

    With `needs_partition`, raises `InputError` if the topic has several partitions and `partition`
    is None.
    """
    from lakebed.base.errors import InputError

    if partition is None and needs_partition and topic.partition_count > 1:
        raise InputError(
            f"--to-offset: {topic.name} has {topic.partition_count} partitions: give a --partition"
        )
    chosen = topic.partitions if partition is None else [topic.partition(partition)]
    # All offsets first: if one is wrong, nothing is moved.
    places = {each.number: place(each) for each in chosen}
    for number, offset in places.items():
        group.seek(offset, partition=number)
    return places


class GroupRow(NamedTuple):
    """One group of one topic.

    If its state could not be read, `problem` states why, and `lag` and `in_flight` are None.
    """

    topic: str
    group: str
    partitions: int
    lag: int | None
    in_flight: int | None
    problem: str | None = None


def _letter_members(letter: DeadLetter) -> dict[str, object]:
    return {
        **message_members(letter.origin.partition, letter.message),
        "offset": letter.origin.offset,
        "delivery_count": letter.origin.delivery_count,
    }


def _offsets_text(lease: HeldRange) -> str:
    last = lease.end - 1
    return str(lease.start) if lease.start == last else f"{lease.start}-{last}"


def _beginning(data: bytes) -> str:
    """Returns the first 60 bytes of a key or a value as text, with `…` if there are more."""
    text = data[:_VALUE_CHARACTERS_MAX].decode("utf-8", "backslashreplace")
    return text + ("…" if len(data) > _VALUE_CHARACTERS_MAX else "")


GROUPS = (
    Column("topic", heading="topic"),
    Column("group", heading="group"),
    Column("partitions", heading="partitions"),
    Column("lag", heading="lag"),
    Column("in_flight", heading="in flight"),
    Column("problem"),
)


def _of_partition(field: str, heading: str) -> Column:
    return Column("", lambda numbered: getattr(numbered[1], field), heading)


GROUP_PARTITIONS = (
    Column("", lambda numbered: numbered[0], "partition"),
    _of_partition("acked_until", "acked until"),
    _of_partition("high_watermark", "high watermark"),
    _of_partition("lag", "lag"),
    _of_partition("in_flight", "in flight"),
    _of_partition("waiting", "waiting"),
    _of_partition("exhausted", "exhausted"),
    _of_partition("settled_ahead", "acked ahead"),
)
"""The columns of a table. A row is a partition's number and the state of the group in it."""

LAGS = (
    Column("partition", lambda numbered: numbered[0], "partition"),
    Column("lag", lambda numbered: numbered[1], "lag"),
)
OFFSETS = (
    Column("partition", lambda numbered: numbered[0]),
    Column("offset", lambda numbered: numbered[1]),
)
LEASES = (
    Column("", "partition", "partition"),
    Column("", _offsets_text, "offsets"),
    Column("", "deadline_ms", "until", moment_ms_text),
    Column("", "delivery_count", "deliveries"),
)
LETTERS = (
    Column("", lambda letter: f"{letter.origin.partition}:{letter.origin.offset}", "from"),
    Column("", lambda letter: letter.origin.delivery_count, "deliveries"),
    Column("", "timestamp_ms", "written", moment_ms_text),
    Column("", "key", "key", _beginning),
    Column("", "value", "value", _beginning),
)
