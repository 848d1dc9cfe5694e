"""`lakebed topic consume`: messages as lines, from where one likes, or through a consumer group.

It only reads, and works beside a writer; through a group it is one, or asks the one there is.
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
_WAIT_S = 0.25  # so long an interrupt waits, too


BeginningOption = Annotated[
    bool, typer.Option("--from-beginning", help="From the oldest message on.")
]
OffsetOption = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="From this one on, of a --partition.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="From the first that is not older: ISO 8601, or ms."),
]
PartitionOption = Annotated[
    int | None, typer.Option(metavar="N", help="Of this one only; else of all.")
]
MaxOption = Annotated[
    int | None, typer.Option("--max", metavar="N", min=0, help="At most so many messages.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what is produced, until interrupted.")
]
GroupOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Through this group: lease, print, acknowledge.")
]
KeysOption = Annotated[bool, typer.Option("--keys", help="Print the key and a tab first.")]
SeparatorOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="As --keys, with this in place of the tab.")
]
NullOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Printed for a message without a value.")
]
ShowOption = Annotated[
    list[Show] | None, typer.Option(help="Put this and a tab before each; repeatable.")
]
SkipOption = Annotated[
    bool,
    typer.Option("--skip-damage", help="Go on behind damage; it is told, the exit code is 65."),
]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which messages."""

    from_beginning: bool
    partition: int | None
    offset: int | None
    since_ms: int | None
    follow: bool

    @property
    def has_start(self) -> bool:
        return self.from_beginning or self.offset is not None or self.since_ms is not None


class CountedPrinter:
    """Prints up to so many messages."""

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
    """Print messages, each with a newline behind it, also beside a writer.

    From now on and as they come, unless a start is given: then those there are, and with --follow
    those that come. Partitions are printed one after the other, what comes later as it comes.
    With --json one JSON object a message is printed, each on a line of its own.

    \b
    lakebed topic consume orders --from-beginning --max 10
    lakebed topic consume orders --since 2025-01-31T12:00:00Z --follow
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
    wanted = Wanted(
        from_beginning=from_beginning,
        partition=partition,
        offset=offset,
        since_ms=None if since is None else parse_moment_ms(since),
        follow=follow,
    )
    _check(wanted, group, skip_damage=skip_damage)
    if group is not None:
        _consume_group(run, topic, group, printer, count_max=count_max, follow=follow)
        return
    counted_printer = CountedPrinter(printer, count_max)
    if skip_damage:
        run.local_root("--skip-damage")
    with open_to_read(run) as store:
        reading = store.topics.open(topic)
        is_whole = _consume(run, reading, wanted, counted_printer, skip_damage=skip_damage)
    if not is_whole:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _check(wanted: Wanted, group: str | None, *, skip_damage: bool) -> None:
    from lakebed.base.errors import InputError

    starts = [wanted.from_beginning, wanted.offset is not None, wanted.since_ms is not None]
    if sum(starts) > 1:
        raise InputError("--from-beginning, --offset and --since exclude each other")
    if group is not None and (any(starts) or wanted.partition is not None or skip_damage):
        raise InputError(
            "--group knows where it is: --from-beginning, --offset, --since, --partition and "
            "--skip-damage do not go with it; lakebed group reset moves a group"
        )


# Reading.


def _consume(
    run: Invocation,
    topic: ReadableTopic,
    wanted: Wanted,
    printer: CountedPrinter,
    *,
    skip_damage: bool,
) -> bool:
    """Whether nothing had to be skipped."""
    skipped: list[str] = []

    def note(place: SkippedRange) -> None:
        skipped.append(str(place.error))
        run.output.note(f"skipped: {place.error}")

    starts = _starts(topic, wanted)
    ends = {number: topic.partition(number).high_watermark() for number in starts}
    for number, start in starts.items():
        batches = topic.partition(number).read_batches(
            start, max(start, ends[number]), skip_damage=skip_damage, on_skipped=note
        )
        while not printer.is_done and (batch := next(batches, None)) is not None:
            printer.batch(number, batch)
    if not wanted.has_start or wanted.follow:
        try:
            _follow(topic, ends, printer)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPT_EXIT_CODE) from None
    return not skipped


def _starts(topic: ReadableTopic, wanted: Wanted) -> dict[int, int]:
    """Where to begin, by partition."""
    from lakebed.base.errors import InputError

    numbers: Iterable[int] = range(topic.partition_count)
    if wanted.partition is not None:
        numbers = [wanted.partition]
    elif wanted.offset is not None and topic.partition_count > 1:
        raise InputError(f"{topic.name} has {topic.partition_count} partitions: of which is it?")
    partitions = map(topic.partition, numbers)
    if wanted.offset is not None:
        return {one.number: wanted.offset for one in partitions}
    if wanted.since_ms is not None:
        return {one.number: one.offset_for_time(wanted.since_ms) for one in partitions}
    if wanted.from_beginning:
        return {one.number: one.start_offset() for one in partitions}
    return {one.number: one.high_watermark() for one in partitions}


def _follow(topic: ReadableTopic, starts: dict[int, int], printer: CountedPrinter) -> None:
    from lakebed.cli import output

    output.flush()
    with topic.follow(starts) as follower:
        while not printer.is_done and (found := follower.next_batch()) is not None:
            printer.batch(found.partition, found.batch)
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
        found = group.describe().values()
        held = sum(part.in_flight + part.waiting for part in found)
    if held and count_max is None:
        run.output.note(f"{counted(held, 'message')}: leased by others or delayed, not printed yet")


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
            # Nobody saw them for sure: whoever is next gets them at once.
            group.nack_all(leased)
            raise
        group.ack_all(leased)
        left = None if left is None else left - len(leased)
