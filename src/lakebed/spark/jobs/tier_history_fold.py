"""Converts the manifest records of one segment, in order, to spans of time. Does no I/O.

These are the kinds of spans:

- A stay in a tier: from the record that put the segment there to the record that removed it.
- A hydration: from its start to its completion or failure.
- An upload: from its first attempt to its completion, with the numbers of attempts and failures.
- A change of the number of bytes that the segment has in a tier.
- The number of the records about the segment.
- Damage of the manifest log, or a torn end, in place of the records there.

The engine defines how a record changes a segment's state (`aof.manifest.transitions`). If a crash
interrupted a hydration and the hydration was started again, the first of the two spans has no end
time.
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
    """A span of time in the history of one segment; a change of bytes at one moment; or, without a
    time, the number of records, or damage.

    Fields that a kind does not use are None, 0 or False.
    """

    kind: str
    tier: int  # of a hydration, the source tier; of an upload, always 2
    started_ms: int
    ended_ms: int | None = None  # None if the span has not ended, or its end is unknown
    is_cut: bool = False  # whether the span began before the history begins
    size_bytes: int | None = None  # by which a tier grew or, if negative, shrank
    outcome: str | None = None  # of damage, or a torn end: its description
    tries: int | None = None  # attempts of an upload; of `RECORDS`: the number of records
    failures: int | None = None  # failed attempts of an upload


class _Upload(NamedTuple):
    started_ms: int
    tries: int = 1
    failures: int = 0


def spans_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Span]:
    """Yields the spans of one segment.

    `rows` are the manifest records about this segment in order, as the data source
    `lakebed.manifest` returns them, plus the column `at_ms`: their time in milliseconds.
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
        """Yields the stays, the hydration and the upload that have not ended yet."""
        for tier, (since_ms, is_cut) in self._stays.items():
            yield Span(STAY, tier, since_ms, is_cut=is_cut)
        if self._hydration is not None:
            yield Span(HYDRATION, self._hydration[1], self._hydration[0], outcome=UNFINISHED)
        if self._upload is not None:
            yield _uploaded(self._upload, None, UNFINISHED)

    def _moved(self, at_ms: int, *, is_cut: bool = False) -> Iterator[Span]:
        """Compares the segment's new state with the state before. Yields the stays in tiers that
        ended, and the changes of the bytes in each tier.

        `is_cut` marks stays that begin here as stays that began before the history.
        """
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
    """Returns the value of the field `name` of a record's payload, converted from a row.

    A field that is null or missing in the row becomes an empty string if it is `key` or `etag`, and
    0 otherwise. Numbers are null only in a `SealSegment` record of the short form, which lacks some
    fields.
    """
    value = row.get(name)
    if value is None:
        assert kind is SealSegment or name not in row or name in ("key", "etag"), name
        return "" if name in ("key", "etag") else 0
    return value
