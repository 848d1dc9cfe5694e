"""The parsed options of a read of topics or logs: plain data, sent to the workers."""

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
from lakebed.store.pin_file import DURATION_MS_MAX

PARTITION_BYTES = 256 * MIB  # starting a task takes as long as reading some tens of MiB
PIN_S = 3600.0  # default of the option pinSeconds: how long a new pin lasts
KEPT_MS = 60_000  # how long a pin lasts after a task of a batch renews it, without pinSeconds

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
    """The kind of things that a data source reads: topics or logs."""

    source: str  # the name of the data source
    noun: str  # `topic` or `log`; also the option that names a single one
    fields: Fields
    columns: Mapping[str, Narrowing]  # columns on which a filter can narrow the read
    new_feed: Callable[[ReadableStore, int | None], Feed]  # takes a store and the bytes per batch

    @property
    def nouns(self) -> str:
        """The plural of the noun, which is also the option that names several topics or logs."""
        return self.noun + "s"

    def open_feed(self, backend: Backend) -> Feed:
        """Opens the store, and returns a feed that reads it. The caller closes `feed.store`."""
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
    rows_max: int | None  # per micro-batch, as is `bytes_max`
    bytes_max: int | None
    fails_on_loss: bool
    pin_ms: int  # how long planned ranges are pinned; 0 means not at all
    kept_ms: int  # how long a pin lasts after a task renews it
    filters: tuple[Filter, ...]  # of the option `filters`
    is_stream: bool

    @contextmanager
    def opened(self, kind: Kind) -> Iterator[Feed]:
        feed = kind.open_feed(self.backend)
        with feed.store:
            yield feed


def settings_of(
    kind: Kind, values: Mapping[str, Any], *, columns: Sequence[str] | None, is_stream: bool
) -> ReadSettings:
    """Parses the options of a read of topics or logs.

    `columns` are the columns to read; None or an empty sequence means those of the option
    `columns`, or all. Raises `BadConfig` if an option is invalid, and `InputError` if a column does
    not exist or is repeated. The positions in `startingOffsets` and `endingOffsets` are checked
    later, when the read is planned.
    """
    options = known_options(kind, values)
    for name in _BATCH_OPTIONS if is_stream else _STREAM_OPTIONS:
        if options.has(name):
            other = "a batch read" if is_stream else "a stream"
            raise BadConfig(f"{kind.source}: the option {name} is only for {other}")
    if options.one_of(kind.noun, kind.nouns) == kind.noun:
        names = [options.required(kind.noun)]
    else:
        names = options.names(kind.nouns)
        if not names:
            raise options.wrong(kind.nouns, f"one or more names of {kind.nouns}")
    pin_ms = milliseconds(
        options.seconds("pinSeconds", default=PIN_S, maximum=DURATION_MS_MAX / 1000)
    )
    return ReadSettings(
        backend=backend_of(options),
        names=names,
        columns=kind.fields.checked(columns or options.names("columns") or None),
        start=edge_of(
            options, "startingOffsets", "startingTimestamp", names=names, default=EARLIEST
        ),
        end=edge_of(options, "endingOffsets", "endingTimestamp", names=names, default=LATEST),
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


def schema_of(kind: Kind, values: Mapping[str, Any]) -> str:
    """Returns the schema of the rows in Spark's DDL: all columns, or those of the option
    `columns`. Raises `InputError` if one of these does not exist.
    """
    return kind.fields.ddl(known_options(kind, values).names("columns") or None)


def known_options(kind: Kind, values: Mapping[str, Any]) -> Options:
    names = (*BACKEND_OPTIONS, kind.noun, kind.nouns, *_READ_OPTIONS)
    return Options(kind.source, values, known=[*names, *_BATCH_OPTIONS, *_STREAM_OPTIONS])


def parallelism() -> int:
    """Returns how many tasks the Spark session runs in parallel.

    If that is unknown, returns the number of CPUs that this process may use, or 1 if that is
    unknown too.
    """
    text = os.environ.get(PARALLELISM_VARIABLE, "")
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def feed_state(feed: Feed, kind: Kind, name: str) -> FeedState:
    """Returns the state of a topic or log.

    If it does not exist, raises `NotFound` with a list of the names that exist.
    """
    try:
        return feed.state(name)
    except NotFound as error:
        raise not_found(kind, error, feed.names()) from None


def all_feed_states(feed: Feed, kind: Kind, names: Sequence[str]) -> dict[str, FeedState]:
    """Returns the states of these topics or logs, with one call to the store.

    If one does not exist, raises `NotFound` with a list of the names that exist.
    """
    try:
        return feed_states(feed, names)
    except NotFound as error:
        raise not_found(kind, error, feed.names()) from None


def not_found(kind: Kind, error: NotFound, names: Sequence[str]) -> NotFound:
    """Returns the error with up to 20 of the names that exist added to its message."""
    existing = ", ".join(sorted(names)[:20]) or "none"
    existing += ", …" if len(names) > 20 else ""
    return NotFound(f"{error}; existing {kind.nouns}: {existing}")
