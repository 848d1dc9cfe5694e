"""`lakebed topic`: topics in a store.

Commands that only read open the store read-only: they take no lock and also work beside a writer.
Nothing is created by any command but `create` and `produce --create`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli import topic_checks, topic_consume, topic_produce
from lakebed.cli.invocation import invocation
from lakebed.cli.output import counted
from lakebed.cli.stores import DAMAGED_EXIT_CODE, open_to_read
from lakebed.cli.topic_stores import (
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
    help="Create topics, produce and consume messages, check and repair them.",
)


@app.command()
def create(
    context: typer.Context,
    topic: TopicName,
    partitions: Annotated[int, typer.Option(metavar="N", help="How many partitions.")] = 1,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of its own; repeatable."),
    ] = None,
) -> None:
    """Create a topic; the number of its partitions stays.

    \b
    lakebed topic create orders --partitions 3 --config retention_ms=7d
    """
    from lakebed.keratin.identity import check_partition_count, checked_settings
    from lakebed.keratin.paths import check_topic_name

    run = invocation(context)
    # Before anything is touched: a mistake creates no root.
    settings = checked_settings(parse_settings(config or ()))
    check_partition_count(partitions)
    check_topic_name(topic)
    with run.place.writing(create=True) as store:
        created = store.topics.create(topic, partitions=partitions, settings=settings)
    document = {
        "topic": topic,
        "topic_id": created.topic_id,
        "partitions": partitions,
        "settings": dict(settings),
    }
    run.output.result(document, lines=[f"{topic}: created, {counted(partitions, 'partition')}"])


@app.command("list")
def list_topics(context: typer.Context) -> None:
    """List the topics.

    \b
    lakebed topic list
    """
    from lakebed.base.errors import DataError
    from lakebed.cli.topic_tables import list_document, list_lines

    run = invocation(context)
    found: list[TopicSummary] = []
    problems: dict[str, str] = {}
    with open_to_read(run) as store:
        for name in store.topics.names():
            try:
                found.append(store.topic_summary(name))
            except DataError as error:
                # One damaged topic hides none of the others.
                problems[name] = str(error)
    run.output.result(list_document(found, problems), lines=list_lines(found, problems))
    if problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def describe(context: typer.Context, topic: TopicName) -> None:
    """Show a topic: its partitions, where they start and end, and the settings that count for it.

    The high watermark is behind the last durable message. Sizes are those of the logs, without
    their indexes.

    \b
    lakebed topic describe orders
    """
    from lakebed.cli.topic_tables import describe_document, describe_lines

    run = invocation(context)
    with open_to_read(run) as store:
        found = store.topic_summary(topic)
    run.output.result(describe_document(found), lines=describe_lines(found))


@app.command()
def configure(
    context: typer.Context,
    topic: TopicName,
    settings: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="What it is from now on.")
    ],
) -> None:
    """Change settings of a topic; they count from its next opening on.

    \b
    lakebed topic configure orders retention_bytes=10GiB compact=true
    """
    from lakebed.cli.topic_tables import setting_text

    run = invocation(context)
    changed = parse_settings(settings)
    with open_topic_to_write(run, topic) as store:
        store.topics.configure(topic, changed)
    lines = [f"{topic}: {name} is {setting_text(value)}" for name, value in changed.items()]
    run.output.result({"topic": topic, "changed": changed}, lines=lines)


@app.command()
def delete(context: typer.Context, topic: TopicName, yes: YesOption = False) -> None:
    """Remove a topic with its messages, groups and dead letters, for good; asks for --yes.

    \b
    lakebed topic delete orders --yes
    """
    from lakebed.keratin.paths import check_topic_name

    run = invocation(context)
    check_topic_name(topic)
    require_yes(
        yes, what=f"this removes the topic {topic} with its messages, groups and dead letters"
    )
    with open_topic_to_write(run, topic) as store:
        store.topics.delete(topic)
    run.output.result({"topic": topic, "deleted": True}, lines=[f"{topic}: deleted"])


# The rest of the group, from files of its own.

app.command()(topic_produce.produce)
app.command()(topic_consume.consume)
app.command()(topic_checks.verify)
app.command()(topic_checks.repair)
