"""`lakebed topic consume`: prints messages from any position, or through a consumer group.

Without a group it takes no lock and works while another process writes. With a group it also
writes, so it opens the store, or works through the process that has it open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.failure import INTERRUPT_EXIT_CODE
from lakebed.cli.interrupts import HeldInterrupts
from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.message_printer import MessagePrinter, Shape, Show
from lakebed.cli.report import counted
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, open_to_read
from lakebed.cli.topic_arguments import TopicName, open_topic_to_write, text_bytes
from lakebed.cli.values import parse_moment_ms

if TYPE_CHECKING:
    from lakebed.api.read_surface import ReadableTopic
    from lakebed.api.surface import Group
    from lakebed.keratin.damage import SkippedRange
    from lakebed.keratin.message_batch import MessageBatch

LEASED_AT_ONCE = 1000
_WAIT_S = 0.25  # for messages; an interrupt may be handled that much later


BeginningOption = Annotated[
    bool, typer.Option("--from-beginning", help="Start at the oldest message.")
]
OffsetOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Start at this offset of the partition given with --partition, which is required "
        "if the topic has several partitions.",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Start at the first message at or after this time: ISO 8601, or ms since 1970.",
    ),
]
PartitionOption = Annotated[
    int | None, typer.Option(metavar="N", help="Read this partition only. Default: all partitions.")
]
MaxOption = Annotated[
    int | None, typer.Option("--max", metavar="N", min=0, help="Print at most N messages.")
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        "-f",
        help="Do not stop at the end, or when the group has no messages left: print new messages "
        "as they arrive, until interrupted or until --max messages are printed.",
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Consume through this group, which is created if it does not exist: lease messages, "
        "print them and acknowledge them, until none are available.",
    ),
]
KeysOption = Annotated[
    bool, typer.Option("--keys", help="Print the key and a tab before the value.")
]
SeparatorOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Print the key and TEXT before the value.")
]
NullOption = Annotated[
    str,
    typer.Option(metavar="TEXT", help="Print TEXT for a message that has no value."),
]
ShowOption = Annotated[
    list[Show] | None,
    typer.Option(
        metavar="offsets|times",
        help="Print this field and a tab before each message: its PARTITION:OFFSET or its time (ms "
        "since 1970); may be repeated.",
    ),
]
SkipOption = Annotated[
    bool,
    typer.Option(
        "--skip-damage",
        help="Skip and report damaged messages; the exit code is 65 if any were skipped, unless "
        "the command is interrupted. Default: fail at the first. The command still fails at a "
        "damaged message that arrived after it started.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which messages to print."""

    from_beginning: bool
    partition: int | None
    offset: int | None
    since_ms: int | None
    follow: bool

    @property
    def has_start(self) -> bool:
        return self.from_beginning or self.offset is not None or self.since_ms is not None


class CountedPrinter:
    """Prints messages until `count_max` messages were printed; None means no limit."""

    def __init__(self, printer: MessagePrinter, count_max: int | None) -> None:
        self._printer = printer
        self.left = count_max

    @property
    def is_done(self) -> bool:
        return self.left == 0

    def batch(self, partition: int, batch: MessageBatch) -> None:
        if self.left is not None:
            batch = batch if len(batch) <= self.left else batch.part(0, self.left)
            self.left -= len(batch)
        self._printer.batch(partition, batch)


def consume(
    context: typer.Context,
    topic: TopicName,
    from_beginning: BeginningOption = False,
    offset: OffsetOption = None,
    since: SinceOption = None,
    partition: PartitionOption = None,
    count_max: MaxOption = None,
    follow: FollowOption = False,
    group: GroupOption = None,
    keys: KeysOption = False,
    key_separator: SeparatorOption = None,
    null_value: NullOption = "",
    show: ShowOption = None,
    skip_damage: SkipOption = False,
) -> None:
    """Print messages, one per line. Works while another process writes.

    Without --group, only new messages are printed by default, as they arrive. With --offset,
    --since or --from-beginning, the messages from there to the current end are printed, one
    partition after another. With --follow, new messages are printed after them. With --json, each
    line is a JSON object for one message.

    \b
    Examples:
      Print the first ten messages:
        lakebed topic consume orders --from-beginning --max 10
      Print messages since noon, and new ones:
        lakebed topic consume orders --since 2025-01-31T12:00:00Z --follow
      Consume through a group:
        lakebed topic consume orders --group billing
    """
    run = invocation(context)
    separator = "\t" if keys and key_separator is None else key_separator
    shape = Shape(
        show=show or (),
        key_separator=None if separator is None else text_bytes(separator),
        null_value=text_bytes(null_value),
    )
    printer = MessagePrinter(run.output, shape)
    selection = Selection(
        from_beginning=from_beginning,
        partition=partition,
        offset=offset,
        since_ms=None if since is None else parse_moment_ms(since),
        follow=follow,
    )
    _check(selection, group, skip_damage=skip_damage)
    if group is not None:
        _consume_group(run, topic, group, printer, count_max=count_max, follow=follow)
        return
    counted_printer = CountedPrinter(printer, count_max)
    if skip_damage:
        run.local_root("--skip-damage")
    with open_to_read(run) as store:
        reading = store.topics.open(topic)
        is_whole = _consume(run, reading, selection, counted_printer, skip_damage=skip_damage)
    if not is_whole:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _check(selection: Selection, group: str | None, *, skip_damage: bool) -> None:
    from lakebed.base.errors import InputError

    starts = [
        selection.from_beginning,
        selection.offset is not None,
        selection.since_ms is not None,
    ]
    if sum(starts) > 1:
        raise InputError(
            "--from-beginning, --offset and --since cannot be combined: give one of them"
        )
    if group is not None and (any(starts) or selection.partition is not None or skip_damage):
        raise InputError(
            "--group continues at the position of the group, so it cannot be combined with "
            "--from-beginning, --offset, --since, --partition or --skip-damage; to move a group, "
            "use lakebed group reset"
        )


# Reading.


def _consume(
    run: Invocation,
    topic: ReadableTopic,
    selection: Selection,
    printer: CountedPrinter,
    *,
    skip_damage: bool,
) -> bool:
    """Prints the selected messages. Returns whether none of them was skipped as damaged."""
    skipped: list[str] = []

    def note(place: SkippedRange) -> None:
        skipped.append(str(place.error))
        run.output.note(f"skipped: {place.error}")

    starts = _starts(topic, selection)
    ends = {number: topic.partition(number).high_watermark() for number in starts}
    for number, start in starts.items():
        batches = topic.partition(number).read_batches(
            start, max(start, ends[number]), skip_damage=skip_damage, on_skipped=note
        )
        while not printer.is_done and (batch := next(batches, None)) is not None:
            printer.batch(number, batch)
    if not selection.has_start or selection.follow:
        try:
            _follow(topic, ends, printer)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPT_EXIT_CODE) from None
    return not skipped


def _starts(topic: ReadableTopic, selection: Selection) -> dict[int, int]:
    """Returns the offset to start at in each selected partition, by partition number."""
    from lakebed.base.errors import InputError

    numbers: Iterable[int] = range(topic.partition_count)
    if selection.partition is not None:
        numbers = [selection.partition]
    elif selection.offset is not None and topic.partition_count > 1:
        raise InputError(
            f"--offset: {topic.name} has {topic.partition_count} partitions: give a --partition"
        )
    partitions = map(topic.partition, numbers)
    if selection.offset is not None:
        return {each.number: selection.offset for each in partitions}
    if selection.since_ms is not None:
        return {each.number: each.offset_for_time(selection.since_ms) for each in partitions}
    if selection.from_beginning:
        return {each.number: each.start_offset() for each in partitions}
    return {each.number: each.high_watermark() for each in partitions}


def _follow(topic: ReadableTopic, starts: dict[int, int], printer: CountedPrinter) -> None:
    from lakebed.cli import output

    output.flush()
    with topic.follow(starts) as follower:
        while not printer.is_done and (followed := follower.next_batch()) is not None:
            printer.batch(followed.partition, followed.batch)
            output.flush()


# Through a group.


def _consume_group(
    run: Invocation,
    topic: str,
    name: str,
    printer: MessagePrinter,
    *,
    count_max: int | None,
    follow: bool,
) -> None:
    with open_topic_to_write(run, topic) as store:
        group = store.topics.open(topic).group(name)
        try:
            with HeldInterrupts() as interrupts:
                _print_leased(group, printer, interrupts, count_max=count_max, follow=follow)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPT_EXIT_CODE) from None
        partitions = group.describe().values()
        held = sum(each.in_flight + each.waiting for each in partitions)
    if held and count_max is None:
        run.output.note(f"{counted(held, 'message')} not printed: leased by others, or delayed")


def _print_leased(
    group: Group,
    printer: MessagePrinter,
    interrupts: HeldInterrupts,
    *,
    count_max: int | None,
    follow: bool,
) -> None:
    from lakebed.cli import output

    left = count_max
    while left is None or left > 0:
        at_once = LEASED_AT_ONCE if left is None else min(left, LEASED_AT_ONCE)
        leased = group.lease(max_messages=at_once, wait_s=_WAIT_S if follow else 0.0)
        if not leased and not follow:
            return
        try:
            with interrupts.let_through():
                printer.leased(leased)
                output.flush()
        except BaseException:
            # The messages may not have been printed: give them to the next consumer immediately.
            group.give_back(leased)
            raise
        group.ack_all(leased)
        left = None if left is None else left - len(leased)
