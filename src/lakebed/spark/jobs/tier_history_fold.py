"""What happened to one segment, as spans of time: pure, from its records in their order.

- A stay in a tier, from the record that brought it there to the one that took it away.
- A hydration, from its start to its end, or its failure.
- An upload, from its first try to its end: how often it was tried, and how often that failed.
- A change of how many bytes a tier has.
- How many records there are; damage, of a manifest log, in the place of records.

How a record changes a segment's state is the engine's to say (`aof.manifest.transitions`). What
was under way when it was begun anew, after a crash, has no end of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lakebed.aof.manifest.format import (
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    SealSegment,
)
from lakebed.aof.manifest.records import UploadDone, UploadFailed, UploadStarted
from lakebed.aof.manifest.state import Draft
from lakebed.aof.manifest.transitions import CREATING, TIER0, TIER1, TIER2, TRANSITIONS

STAY, HYDRATION, UPLOAD, CHANGE = "stay", "hydration", "upload", "change"
RECORDS, DAMAGE, TORN = "records", "damage", "torn"
DONE, FAILED, UNFINISHED = "done", "failed", "unfinished"
STATE = "State"  # the type of a row that says what is known before the first record

_TIERS = {0: TIER0, 1: TIER1, 2: TIER2}
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in TRANSITIONS}
_KNOWN_BEFORE = ("durable_bytes", "resident_bytes", "compressed_bytes", "key", "residency",
                 "pending")  # fmt: skip


class Span(NamedTuple):
    """Of one segment. What a kind has no use for is None."""

    kind: str
    tier: int
    started_ms: int
    ended_ms: int | None = None  # None if it goes on, or nobody knows
    is_cut: bool = False  # it began before the history
    size_bytes: int | None = None  # of a change: more, or less
    outcome: str | None = None
    tries: int | None = None
    failures: int | None = None


class _Upload(NamedTuple):
    started_ms: int
    tries: int = 1
    failures: int = 0


def spans_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Span]:
    """`rows` are the records of a segment as `lakebed.manifest` has them, with `at_ms`."""
    fold = _Fold()
    count = 0
    for row in rows:
        if row["problem"] is not None:
            where = f"{row['log']}: chunk {row['chunk_index']}"
            kind = TORN if row["problem"].startswith("torn") else DAMAGE
            yield Span(kind, 0, 0, outcome=f"{where}: {row['problem']}")
            continue
        count += row["type"] != STATE
        yield from fold.add(row)
    yield from fold.finish()
    yield Span(RECORDS, 0, 0, tries=count)


class _Fold:
    def __init__(self) -> None:
        self._draft: Draft | None = None
        self._last_ms = 0
        self._stays: dict[int, tuple[int, bool]] = {}  # since when, and whether before the history
        self._bytes = dict.fromkeys(_TIERS, 0)
        self._hydration: tuple[int, int] | None = None  # since when, and from which tier
        self._upload: _Upload | None = None

    def add(self, row: Mapping[str, Any]) -> Iterator[Span]:
        at_ms = self._last_ms = max(self._last_ms, row["at_ms"])  # time stands still, if it falls
        if row["type"] == STATE:
            self._draft = Draft(row["segment_id"])
            for name in _KNOWN_BEFORE:
                setattr(self._draft, name, row[name] or getattr(self._draft, name))
            yield from self._moved(at_ms, is_cut=True)
            return
        kind = _TYPES.get(row["type"])
        if kind is None:
            return
        payload = kind(*(_value(kind, row, name) for name in kind._fields))
        if self._draft is None and kind in CREATING:
            self._draft = Draft(row["segment_id"])
        yield from self._worked(payload, at_ms)
        if self._draft is not None:
            if TRANSITIONS[kind](self._draft, payload, at_ms):
                self._draft = None
            yield from self._moved(at_ms)

    def finish(self) -> Iterator[Span]:
        """What goes on."""
        for tier, (since_ms, is_cut) in self._stays.items():
            yield Span(STAY, tier, since_ms, is_cut=is_cut)
        if self._hydration is not None:
            yield Span(HYDRATION, self._hydration[1], self._hydration[0], outcome=UNFINISHED)
        if self._upload is not None:
            yield _uploaded(self._upload, None, UNFINISHED)

    def _moved(self, at_ms: int, *, is_cut: bool = False) -> Iterator[Span]:
        """From where it was to where it is now."""
        draft = self._draft
        for tier, bit in _TIERS.items():
            is_here = draft is not None and bool(draft.residency & bit)
            if is_here and tier not in self._stays:
                self._stays[tier] = (at_ms, is_cut)
            elif not is_here and tier in self._stays:
                since_ms, was_cut = self._stays.pop(tier)
                yield Span(STAY, tier, since_ms, at_ms, was_cut)
            size = 0
            if draft is not None and is_here:
                size = draft.compressed_bytes if tier else draft.resident_bytes
            if size != self._bytes[tier]:
                yield Span(CHANGE, tier, at_ms, size_bytes=size - self._bytes[tier])
                self._bytes[tier] = size

    def _worked(self, payload: object, at_ms: int) -> Iterator[Span]:
        match payload:
            case HydrationStarted(source_tier=tier):
                if self._hydration is not None:
                    since_ms, source = self._hydration
                    yield Span(HYDRATION, source, since_ms, outcome=UNFINISHED)
                self._hydration = (at_ms, tier)
            case HydrationDone() | HydrationFailed():
                outcome = DONE if isinstance(payload, HydrationDone) else FAILED
                if self._hydration is not None:
                    since_ms, source = self._hydration
                    yield Span(HYDRATION, source, since_ms, at_ms, outcome=outcome)
                self._hydration = None
            case UploadStarted():
                known = self._upload
                self._upload = (
                    _Upload(at_ms) if known is None else known._replace(tries=known.tries + 1)
                )
            case UploadFailed():
                known = self._upload or _Upload(at_ms)
                self._upload = known._replace(failures=known.failures + 1)
            case UploadDone():
                if self._upload is not None:
                    yield _uploaded(self._upload, at_ms, DONE)
                self._upload = None
            case _:
                return


def _uploaded(upload: _Upload, ended_ms: int | None, outcome: str) -> Span:
    return Span(
        UPLOAD,
        2,
        upload.started_ms,
        ended_ms,
        outcome=outcome,
        tries=upload.tries,
        failures=upload.failures,
    )


def _value(kind: type, row: Mapping[str, Any], name: str) -> Any:
    """A field of a payload; only the short form of a seal lacks some."""
    value = row.get(name)
    if value is None:
        assert kind is SealSegment or name not in row or name in ("key", "etag"), name
        return "" if name in ("key", "etag") else 0
    return value
