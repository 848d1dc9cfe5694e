"""Folds the records of one segment, in order, into spans of time. Without I/O.

- A stay in a tier: from the record that put the segment there to the one that removed it.
- A hydration: from its start to its completion or failure.
- An upload: from its first attempt to its completion, with the numbers of attempts and failures.
- A change of the number of bytes in a tier.
- The number of records; damage of a manifest log takes the place of records.

The engine defines how a record changes a segment's state (`aof.manifest.transitions`). Work that
was interrupted by a crash and started again has no end of its own.
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
STATE = "State"  # the type of a row with the state before the first record

_TIERS = {0: TIER0, 1: TIER1, 2: TIER2}
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in TRANSITIONS}
_KNOWN_BEFORE = ("durable_bytes", "resident_bytes", "compressed_bytes", "key", "residency",
                 "pending")  # fmt: skip


class Span(NamedTuple):
    """A span of one segment. Fields that its kind does not use are None."""

    kind: str
    tier: int
    started_ms: int
    ended_ms: int | None = None  # None if it has not ended, or the end is unknown
    is_cut: bool = False  # it began before the history
    size_bytes: int | None = None  # of a change: positive or negative
    outcome: str | None = None
    tries: int | None = None
    failures: int | None = None


class _Upload(NamedTuple):
    started_ms: int
    tries: int = 1
    failures: int = 0


def spans_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Span]:
    """Yields the spans of a segment.

    `rows` are its records as `lakebed.manifest` returns them, with `at_ms`.
    """
    fold = _Fold()
    count = 0
    for row in rows:
        if row["problem"] is not None:
            chunk = f"{row['log']}: chunk {row['chunk_index']}"
            kind = TORN if row["problem"].startswith("torn") else DAMAGE
            yield Span(kind, 0, 0, outcome=f"{chunk}: {row['problem']}")
            continue
        count += row["type"] != STATE
        yield from fold.add(row)
    yield from fold.finish()
    yield Span(RECORDS, 0, 0, tries=count)


class _Fold:
    def __init__(self) -> None:
        self._draft: Draft | None = None
        self._last_ms = 0
        self._stays: dict[
            int, tuple[int, bool]
        ] = {}  # start, and whether it was before the history
        self._bytes = dict.fromkeys(_TIERS, 0)
        self._hydration: tuple[int, int] | None = None  # start, and source tier
        self._upload: _Upload | None = None

    def add(self, row: Mapping[str, Any]) -> Iterator[Span]:
        at_ms = self._last_ms = max(
            self._last_ms, row["at_ms"]
        )  # a clock that was set back does not count
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
        """Yields what has not ended."""
        for tier, (since_ms, is_cut) in self._stays.items():
            yield Span(STAY, tier, since_ms, is_cut=is_cut)
        if self._hydration is not None:
            yield Span(HYDRATION, self._hydration[1], self._hydration[0], outcome=UNFINISHED)
        if self._upload is not None:
            yield _uploaded(self._upload, None, UNFINISHED)

    def _moved(self, at_ms: int, *, is_cut: bool = False) -> Iterator[Span]:
        """Yields the stays that ended and the changes of size, from the old to the new state."""
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
                upload = self._upload
                self._upload = (
                    _Upload(at_ms) if upload is None else upload._replace(tries=upload.tries + 1)
                )
            case UploadFailed():
                upload = self._upload or _Upload(at_ms)
                self._upload = upload._replace(failures=upload.failures + 1)
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
    """Returns a field of a payload. Only the short form of a seal lacks fields."""
    value = row.get(name)
    if value is None:
        assert kind is SealSegment or name not in row or name in ("key", "etag"), name
        return "" if name in ("key", "etag") else 0
    return value
