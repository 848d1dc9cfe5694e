"""`lakebed group`: the consumer groups of topics.

`list`, `describe`, `lag` and `dead-letters` only read: they take no lock, and while another process
writes they report what its files say. The other commands ask the writer: the program that has the
store open, or this one, which opens it.
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

LETTERS_MAX = 1000  # that are listed, unless another number is asked for
LEASES_MAX = 1000
_VALUE_CHARACTERS_MAX = 60

app = typer.Typer(
    add_completion=False,
    help="Look at the consumer groups of topics, move them, and send dead letters back.",
)

Place = Callable[["Partition"], int]


@app.command("list")
def list_groups(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="The topic's name; else all topics.")
    ] = None,
) -> None:
    """List the groups, with how many messages each has not settled yet.

    \b
    lakebed group list
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
    """Show a group: what it has settled, leased and not looked at yet, by partition.

    \b
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
    """Tell how many messages a group has not settled, by partition and in all.

    \b
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
        int | None, typer.Option(metavar="N", min=0, help="Of this partition; default: all.")
    ] = None,
    count_max: Annotated[
        int, typer.Option("--max", metavar="N", min=1, help="Print at most this many.")
    ] = LEASES_MAX,
) -> None:
    """List the messages that consumers hold: until when, and how often they were delivered.

    \b
    lakebed group leases orders billing
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
        int | None, typer.Option(metavar="N", min=0, help="Of this partition; default: all.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Only this message of the --partition.")
    ] = None,
) -> None:
    """Take leases back from consumers that hold them, so that others get the messages at once.

    A consumer that still works on such a message cannot ack it any more.

    \b
    lakebed group release orders billing
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
        bool, typer.Option("--to-beginning", help="Everything there is, once more.")
    ] = False,
    to_end: Annotated[bool, typer.Option("--to-end", help="Only what comes from now on.")] = False,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="This one of a --partition comes next.")
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The first that is not older: ISO 8601, or ms."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(metavar="N", help="This one only; else all.")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Also a group that does not exist yet.")
    ] = False,
) -> None:
    """Move a group: everything before that place is settled, everything from there on comes again.

    \b
    lakebed group reset orders billing --to-beginning
    lakebed group reset orders billing --to-offset 17 --partition 0
    """
    from lakebed.base.errors import InputError

    run = invocation(context)
    if [to_beginning, to_end, to_offset is not None, to_time is not None].count(True) != 1:
        raise InputError("one of --to-beginning, --to-end, --to-offset and --to-time is needed")
    moment_ms = None if to_time is None else parse_moment_ms(to_time)

    def place(one: Partition) -> int:
        if moment_ms is not None:
            return one.offset_for_time(moment_ms)
        if to_offset is not None:
            return to_offset
        return one.high_watermark() if to_end else one.start_offset()

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
                f"{topic} {group}: partition {number} goes on at {offset}"
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
        bool, typer.Option("--redrive", help="Send them back to the partitions they came from.")
    ] = False,
    count_max: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="At most so many.")
    ] = None,
) -> None:
    """List messages that were delivered too often, or send them back.

    Sent back they are new messages, for all groups of the topic.

    \b
    lakebed group dead-letters orders billing
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
    """Forget a group with all it has acked, for good; asks for --yes.

    \b
    lakebed group delete orders billing --yes
    """
    run = invocation(context)
    require_yes(yes, what=f"this forgets what the group {group} of {topic} has acked")
    with open_topic_to_write(run, topic) as store:
        store.topics.open(topic).delete_group(group)
    run.output.show(
        Value("topic", topic),
        Value("group", group),
        Value("deleted", True),
        Text(f"{topic} {group}: deleted"),
    )


def require_group(topic: ReadableTopic, group: str) -> ReadableGroup:
    """`NotFound` if the topic has no such group: none is created by asking for it."""
    from lakebed.base.errors import NotFound

    if group not in topic.groups():
        raise NotFound(f"the topic {topic.name} has no group {group}")
    return topic.group(group)


def _row(topic: ReadableTopic, group: str) -> GroupRow:
    from lakebed.base.errors import DataError

    count = topic.partition_count
    try:
        found = topic.group(group).describe().values()
    except DataError as error:
        # One damaged group hides none of the others.
        return GroupRow(topic.name, group, count, None, None, str(error))
    return GroupRow(
        topic.name, group, count, sum(one.lag for one in found), sum(one.in_flight for one in found)
    )


@contextmanager
def _open_group(
    run: Invocation, topic: str, group: str, *, create: bool = False
) -> Iterator[tuple[Topic, Group]]:
    """Both for writing; `NotFound` if there is no such group, and none is made by mistake."""
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
    """Where the group goes on, by partition."""
    from lakebed.base.errors import InputError

    if partition is None and needs_partition and topic.partition_count > 1:
        raise InputError(f"{topic.name} has {topic.partition_count} partitions: of which is it?")
    chosen = topic.partitions if partition is None else [topic.partition(partition)]
    # First all places: one that is wrong moves nothing.
    places = {one.number: place(one) for one in chosen}
    for number, offset in places.items():
        group.seek(offset, partition=number)
    return places


class GroupRow(NamedTuple):
    """One group of one topic; `problem` is why nothing is known of it."""

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
    """As far as it is text."""
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
"""Of pairs of a number and a partition."""

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
