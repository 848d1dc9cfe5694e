"""How the commands of `lakebed topic` and `lakebed group` open a store, and what they share."""

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

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it: it cannot be undone.")]


@contextmanager
def open_topic_to_write(run: Invocation, topic: str) -> Iterator[Store]:
    """The store, if the topic exists, damaged or not; else nothing is touched."""
    require_topic(run, topic)
    with run.place.writing() as store:
        yield store


def require_topic(run: Invocation, topic: str, *, advice: str = "") -> None:
    """`NotFound`, with the advice, if there is no such topic; nothing is opened."""
    from lakebed.base.errors import NotFound
    from lakebed.keratin.paths import check_topic_name

    check_topic_name(topic)
    with open_to_read(run) as store:
        if topic not in store.topics.names():
            raise NotFound(f"{store.root}: there is no topic {topic}{advice}")


def require_yes(yes: bool, *, what: str) -> None:
    """`InputError` unless whoever removes something for good said so."""
    from lakebed.base.errors import InputError

    if not yes:
        raise InputError(f"{what}, for good: say --yes")


def parse_settings(texts: Iterable[str]) -> dict[str, Value]:
    """`name=value` each, as settings of a topic; `BadConfig` if one is wrong."""
    from lakebed.base.config import field_names, read_text, unknown
    from lakebed.base.errors import BadConfig
    from lakebed.base.units import shown
    from lakebed.keratin.config import TopicConfig

    found: dict[str, Value] = {}
    where, names = "the topic's settings", field_names(TopicConfig)
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadConfig(f"{where}: {shown(text)}: expected name=value")
        if name not in names:
            raise unknown(name, known=names, noun="setting", where=where)
        if name in found:
            raise BadConfig(f"{where}: {name} is there twice")
        found[name] = read_text(TopicConfig, name, value, where=where)
    return found


def text_bytes(text: str) -> bytes:
    """What was typed, as bytes: also those that are no text."""
    return text.encode("utf-8", "surrogateescape")
