"""`lakebed topic`: the topics of a store.

Commands that only read work while another process writes, and take no lock, except `repair
--dry-run`. Only `create` and `produce --create` create the topic that they name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli import topic_checks, topic_consume, topic_produce
from lakebed.cli.invocation import invocation
from lakebed.cli.report import Column, Item, Rows, Text, Value, counted
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, open_to_read
from lakebed.cli.topic_arguments import (
    TopicName,
    YesOption,
    open_topic_to_write,
    parse_settings,
    require_yes,
)

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.store.topic_summary import TopicSummary

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Create topics, produce and consume messages, verify and repair topics.",
)


@app.command()
def create(
    context: typer.Context,
    topic: TopicName,
    partitions: Annotated[int, typer.Option(metavar="N", help="The number of partitions.")] = 1,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Set this setting of the topic; may be repeated."),
    ] = None,
) -> None:
    """Create a topic. Its number of partitions cannot be changed later.

    \b
    Examples:
      Create a topic with three partitions that keeps messages for a week:
        lakebed topic create orders --partitions 3 --config retention_ms=7d
    """
    from lakebed.keratin.identity import check_partition_count, checked_settings
    from lakebed.keratin.paths import check_topic_name

    run = invocation(context)
    # Before the store is opened: a mistake must not create a root.
    settings = checked_settings(parse_settings(config or ()))
    check_partition_count(partitions)
    check_topic_name(topic)
    with run.place.writing(create=True) as store:
        created = store.topics.create(topic, partitions=partitions, settings=settings)
    run.output.show(
        Value("topic", topic),
        Value("topic_id", created.topic_id),
        Value("partitions", partitions),
        Value("settings", settings),
        Text(f"{topic}: created, {counted(partitions, 'partition')}"),
    )


@app.command("list")
def list_topics(context: typer.Context) -> None:
    """List the topics.

    \b
    Examples:
      List all topics:
        lakebed topic list
    """
    from lakebed.base.errors import DataError

    run = invocation(context)
    summaries: list[TopicSummary] = []
    problems: dict[str, str] = {}
    with open_to_read(run) as store:
        for name in store.topics.names():
            try:
                summaries.append(store.topic_summary(name))
            except DataError as error:
                # One damaged topic does not hide the others.
                problems[name] = str(error)
    run.output.show(
        Rows("topics", TOPICS, summaries),
        Value("problems", problems),
        Text(*(f"{name}: {problem}" for name, problem in problems.items())),
    )
    if problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def describe(context: typer.Context, topic: TopicName) -> None:
    """Show the partitions, offsets and effective settings of a topic.

    The high watermark is the offset after the last durable message. Sizes do not include indexes.

    \b
    Examples:
      Describe a topic:
        lakebed topic describe orders
    """
    run = invocation(context)
    with open_to_read(run) as store:
        summary = store.topic_summary(topic)
    settings = summary.settings
    run.output.show(
        Item(TOPIC, summary),
        Text(""),
        Rows("partitions", PARTITIONS, summary.partitions),
        Text(""),
        Value("settings", {setting.name: setting.value for setting in settings}),
        Value("own_settings", [setting.name for setting in settings if setting.is_own]),
        Rows("", SETTINGS, settings),
    )


@app.command()
def configure(
    context: typer.Context,
    topic: TopicName,
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...", help="The settings to change, with their new values."
        ),
    ],
) -> None:
    """Change settings of a topic.

    A program that has the topic open uses the new settings only after it has opened the store
    again.

    \b
    Examples:
      Limit a topic to 10 GiB and compact it:
        lakebed topic configure orders retention_bytes=10GiB compact=true
    """
    run = invocation(context)
    changed = parse_settings(settings)
    with open_topic_to_write(run, topic) as store:
        store.topics.configure(topic, changed)
    run.output.show(
        Value("topic", topic),
        Value("changed", changed),
        Text(*(f"{topic}: {name} is {_setting_text(value)}" for name, value in changed.items())),
    )


@app.command()
def delete(context: typer.Context, topic: TopicName, yes: YesOption = False) -> None:
    """Delete a topic with its messages, groups and dead letters. Requires --yes.

    \b
    Examples:
      Delete a topic:
        lakebed topic delete orders --yes
    """
    from lakebed.keratin.paths import check_topic_name

    run = invocation(context)
    check_topic_name(topic)
    require_yes(
        yes, what=f"this deletes the topic {topic} with its messages, groups and dead letters"
    )
    with open_topic_to_write(run, topic) as store:
        store.topics.delete(topic)
    run.output.show(Value("topic", topic), Value("deleted", True), Text(f"{topic}: deleted"))


# Commands of the group in other modules.

app.command()(topic_produce.produce)
app.command()(topic_consume.consume)
app.command()(topic_checks.verify)
app.command()(topic_checks.repair)


def _setting_text(value: object) -> str:
    """Formats the value of a setting as the user writes it for `lakebed topic configure`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


TOPICS = (
    Column("topic", "name", "topic"),
    Column("partitions", lambda topic: len(topic.partitions), "partitions"),
    Column("offsets", heading="offsets"),
    Column("bytes", heading="bytes"),
    Column("groups", heading="groups", text=lambda groups: str(len(groups))),
)
TOPIC = (
    Column("topic", "name", "topic"),
    Column("topic_id", heading="id"),
    Column("groups", heading="groups"),
)
PARTITIONS = (
    Column("partition", heading="partition"),
    Column("start_offset", heading="start"),
    Column("high_watermark", heading="high watermark"),
    Column("segments", heading="segments"),
    Column("bytes", heading="bytes"),
)
SETTINGS = (
    Column("", "name", "setting"),
    Column("", "value", "value", _setting_text),
    Column("", lambda setting: "topic" if setting.is_own else "store", "from"),
)
