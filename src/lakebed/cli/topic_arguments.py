"""Parses the arguments of `lakebed topic` and `lakebed group`, and opens the store for their
commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation
from lakebed.cli.store_access import open_to_read

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.api.surface import Store
    from lakebed.base.config import Value

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The name of the group.")]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Confirm the deletion, which cannot be undone.")
]


@contextmanager
def open_topic_to_write(run: Invocation, topic: str) -> Iterator[Store]:
    """Opens the store for writing. Does not open the topic, which may be damaged.

    If there is no such topic, raises `NotFound` instead, and changes nothing.
    """
    require_topic(run, topic)
    with run.place.writing() as store:
        yield store


def require_topic(run: Invocation, topic: str, *, advice: str = "") -> None:
    """Raises `NotFound` if there is no such topic. `advice` is added to the message. Does not open
    the topic."""
    from lakebed.base.errors import NotFound
    from lakebed.keratin.paths import check_topic_name

    check_topic_name(topic)
    with open_to_read(run) as store:
        if topic not in store.topics.names():
            raise NotFound(f"{store.root}: there is no topic {topic}{advice}")


def require_yes(yes: bool, *, what: str) -> None:
    """Raises `InputError` unless the user gave `--yes`."""
    from lakebed.base.errors import InputError

    if not yes:
        raise InputError(f"{what}, and cannot be undone: confirm with --yes")


def parse_settings(texts: Iterable[str]) -> dict[str, Value]:
    """Parses settings of a topic, each `name=value`. Raises `BadConfig` if a setting is not valid,
    or is given twice."""
    from lakebed.base.config import field_names, read_text, unknown
    from lakebed.base.errors import BadConfig
    from lakebed.base.units import shown
    from lakebed.keratin.config import TopicConfig

    settings: dict[str, Value] = {}
    where, names = "the topic's settings", field_names(TopicConfig)
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadConfig(f"{where}: {shown(text)}: expected name=value")
        if name not in names:
            raise unknown(name, known=names, noun="setting", where=where)
        if name in settings:
            raise BadConfig(f"{where}: {name} is given twice")
        settings[name] = read_text(TopicConfig, name, value, where=where)
    return settings


def text_bytes(text: str) -> bytes:
    """Returns the bytes that the user gave for an argument, even if they are not valid UTF-8."""
    return text.encode("utf-8", "surrogateescape")
