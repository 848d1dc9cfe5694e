"""What a read was asked to do, taken from its options: plain, and carried to the workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import Filter

from lakebed.api.read_surface import ReadableStore
from lakebed.base.errors import BadConfig, NotFound
from lakebed.base.units import MIB
from lakebed.spark.arrow.columns import Fields
from lakebed.spark.backends import BACKEND_OPTIONS, Backend, backend_of
from lakebed.spark.conditions import OPTION, REFUSED, conditions_of
from lakebed.spark.filters import Narrowing
from lakebed.spark.options import Options, milliseconds
from lakebed.spark.registry import PARALLELISM_VARIABLE
from lakebed.spark.sources.edges import EARLIEST, LATEST, Edge, edge_of
from lakebed.spark.sources.feed import Feed, FeedState, feed_states
from lakebed.store.pins import DURATION_MS_MAX

PARTITION_BYTES = 256 * MIB  # a task costs as much as to read some tens of them
PIN_S = 3600.0  # for a query whose tasks have not begun; a stream's until it is committed
KEPT_MS = 60_000  # once tasks of a batch query run, which renew it

_READ_OPTIONS = (
    "columns",
    "startingOffsets",
    "startingTimestamp",
    "partitionBytes",
    "minPartitions",
    "failOnDataLoss",
    "pinSeconds",
)
_BATCH_OPTIONS = ("endingOffsets", "endingTimestamp", OPTION, REFUSED)
_STREAM_OPTIONS = ("maxRowsPerTrigger", "maxBytesPerTrigger")


@dataclass(frozen=True)
class Kind:
    """Of what is read: topics or logs."""

    source: str  # the name of the data source
    noun: str  # also the option that says which one
    fields: Fields
    columns: Mapping[str, Narrowing]  # that filters are pushed down of
    new_feed: Callable[[ReadableStore, int | None], Feed]  # with the bytes of a batch

    @property
    def nouns(self) -> str:
        """The option that says which ones."""
        return self.noun + "s"

    def open_feed(self, backend: Backend) -> Feed:
        """Close its store."""
        return self.new_feed(backend.open(), backend.batch_bytes_max)


@dataclass(frozen=True)
class ReadSettings:
    backend: Backend
    names: Sequence[str]
    columns: tuple[str, ...]
    start: Edge
    end: Edge
    partition_bytes: int
    partitions_min: int
    rows_max: int | None  # of a trigger, as bytes_max
    bytes_max: int | None
    fails_on_loss: bool
    pin_ms: int  # 0: nothing is pinned
    kept_ms: int  # how long pins last from when a task renewed them
    filters: tuple[Filter, ...]  # that the frame was loaded with
    is_stream: bool

    @contextmanager
    def opened(self, kind: Kind) -> Iterator[Feed]:
        feed = kind.open_feed(self.backend)
        with feed.store:
            yield feed


def settings_of(
    kind: Kind, given: Mapping[str, Any], *, columns: Sequence[str] | None, is_stream: bool
) -> ReadSettings:
    """`BadConfig` if an option is wrong. `columns` are those of the schema, if there is one."""
    options = known_options(kind, given)
    for name in _BATCH_OPTIONS if is_stream else _STREAM_OPTIONS:
        if options.has(name):
            other = "a batch read" if is_stream else "a stream"
            raise BadConfig(f"{kind.source}: the option {name} is for {other}")
    if options.one_of(kind.noun, kind.nouns) == kind.noun:
        names = [options.required(kind.noun)]
    else:
        names = options.names(kind.nouns)
    pin_ms = milliseconds(
        options.seconds("pinSeconds", default=PIN_S, maximum=DURATION_MS_MAX / 1000)
    )
    return ReadSettings(
        backend=backend_of(options),
        names=names,
        columns=kind.fields.checked(columns or options.names("columns") or None),
        start=edge_of(
            options, "startingOffsets", "startingTimestamp", names=names, otherwise=EARLIEST
        ),
        end=edge_of(options, "endingOffsets", "endingTimestamp", names=names, otherwise=LATEST),
        partition_bytes=options.size("partitionBytes") or PARTITION_BYTES,
        partitions_min=options.number("minPartitions", minimum=1) or parallelism(),
        rows_max=options.number("maxRowsPerTrigger", minimum=1),
        bytes_max=options.size("maxBytesPerTrigger"),
        fails_on_loss=options.flag("failOnDataLoss", default=True),
        pin_ms=pin_ms,
        kept_ms=pin_ms if is_stream or options.has("pinSeconds") else KEPT_MS,
        filters=conditions_of(options, kind.fields.schema),
        is_stream=is_stream,
    )


def schema_of(kind: Kind, given: Mapping[str, Any]) -> str:
    """As Spark spells it: all columns, or those of the option."""
    return kind.fields.ddl(known_options(kind, given).names("columns") or None)


def known_options(kind: Kind, given: Mapping[str, Any]) -> Options:
    known = (*BACKEND_OPTIONS, kind.noun, kind.nouns, *_READ_OPTIONS)
    return Options(kind.source, given, known=[*known, *_BATCH_OPTIONS, *_STREAM_OPTIONS])


def parallelism() -> int:
    """How many tasks the session runs at once; else the cores of where the query is planned."""
    told = os.environ.get(PARALLELISM_VARIABLE, "")
    if told.isascii() and told.isdigit() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def feed_state(feed: Feed, kind: Kind, name: str) -> FeedState:
    """`NotFound`, saying what there is."""
    try:
        return feed.state(name)
    except NotFound as error:
        raise not_found(kind, error, feed.names()) from None


def all_feed_states(feed: Feed, kind: Kind, names: Sequence[str]) -> dict[str, FeedState]:
    """In one call; `NotFound`, saying what there is."""
    try:
        return feed_states(feed, names)
    except NotFound as error:
        raise not_found(kind, error, feed.names()) from None


def not_found(kind: Kind, error: NotFound, names: Sequence[str]) -> NotFound:
    """The same error, saying what there is."""
    known = ", ".join(sorted(names)[:20]) or "none"
    return NotFound(f"{error}; {kind.nouns} that there are: {known}")
