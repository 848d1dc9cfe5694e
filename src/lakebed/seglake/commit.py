"""The write barrier: many requests, one sync of the segment, one transaction.

In this order: the bodies that came along are written into one segment and synced; the transaction
takes the segments' new lengths, then each request by itself; the WAL is synced; all are told.

A sync of the segment that failed fails the requests whose bodies it covered, and that segment is
not written to again. A COMMIT that failed fails all of its requests: nobody knows whether they
happened, so nobody is told that they did. Later requests go on in a new segment, on new
connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Protocol

from lakebed.base.clock import Clock
from lakebed.base.errors import InputError, LakebedError
from lakebed.base.units import KIB
from lakebed.seglake.body import Body
from lakebed.seglake.meta.database import Database, Together
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import Chunk
from lakebed.seglake.segments import Segments
from lakebed.seglake.versions import PlannedPut

Apply = Callable[[Writer, tuple[Chunk, ...]], Any]
"""What a request does in the transaction, given where its body lies; its result is told."""

Plan = Callable[[tuple[Chunk, ...]], PlannedPut]
"""The same of a put without a condition: such ones are carried out together."""


class PutAll(Protocol):
    def __call__(self, writer: Writer, puts: Sequence[PlannedPut]) -> Sequence[Any]: ...


REQUEST_BYTES = 512  # what a request without a body counts
TRANSACTION_BYTES, REQUEST_WAL_BYTES = 64 * KIB, 16 * KIB  # of disk: pages of the write-ahead log


class Request:
    """Something to be done in a transaction."""

    __slots__ = ("apply", "body", "plan")

    def __init__(self, apply: Apply, body: Body | None = None, plan: Plan | None = None) -> None:
        self.apply = apply
        self.body = body
        self.plan = plan

    @property
    def size(self) -> int:
        inline = None if self.body is None else self.body.inline
        return REQUEST_BYTES + (0 if inline is None else len(inline[1]))


class CommitSink:
    """The sink of the barrier, whose leader alone uses it."""

    def __init__(
        self, segments: Segments, database: Database, put_all: PutAll, *, clock: Clock
    ) -> None:
        self._segments = segments
        self._database = database
        self._put_all = put_all
        self._clock = clock
        # How often and when last it was used, for whoever works in the pauses.
        self.commit_count = 0
        self.used_ns = 0

    def commit(self, items: Sequence[Request]) -> list[Any]:
        """The result of each, or its error."""
        self.commit_count += 1
        self.used_ns = self._clock.monotonic_ns()
        rows: dict[str, SegmentRow] = {}
        chunks = self._write_bodies(items, rows)
        failed: dict[int, LakebedError] = {}
        placed: list[tuple[Request, tuple[Chunk, ...]]] = []
        for index, (item, found) in enumerate(zip(items, chunks, strict=True)):
            if isinstance(found, LakebedError):
                failed[index] = found
            else:
                placed.append((item, found))
        operations = self._operations(placed)
        if rows:
            operations.insert(0, lambda writer: put_segments(writer, rows.values()))
        try:
            results = self._database.write(operations)
        except LakebedError as error:
            return [failed.get(index, error) for index in range(len(items))]
        told = iter(results[1:] if rows else results)
        if rows and isinstance(results[0], LakebedError):
            # Without its segments nothing of this may stand; it was all rolled back apart.
            return [failed.get(index, results[0]) for index in range(len(items))]
        return [failed[index] if index in failed else next(told) for index in range(len(items))]

    def _operations(
        self, placed: Sequence[tuple[Request, tuple[Chunk, ...]]]
    ) -> list[Callable[[Writer], Any] | Together[Any]]:
        """One for each, in order; those of planned puts that follow one another are together."""
        operations: list[Callable[[Writer], Any] | Together[Any]] = []
        for is_planned, some in groupby(placed, key=lambda one: one[0].plan is not None):
            requests = list(some)
            singles = [_operation(item.apply, chunks) for item, chunks in requests]
            if not is_planned:
                operations += singles
                continue
            puts = [item.plan(chunks) for item, chunks in requests if item.plan is not None]
            operations.append(Together(_checked(partial(self._put_all, puts=puts)), singles))
        return operations

    def _write_bodies(
        self, items: Sequence[Request], rows: dict[str, SegmentRow]
    ) -> list[tuple[Chunk, ...] | LakebedError]:
        """Where each body is, durable; `rows` takes the segments that hold them."""
        records = [
            item.body.inline
            for item in items
            if item.body is not None and item.body.inline is not None
        ]
        written: Sequence[Chunk] = ()
        failure: LakebedError | None = None
        if records:
            try:
                written, row = self._write(records)
                _keep_longest(rows, row)
            except LakebedError as error:
                failure = error
        placed = iter(written)
        found: list[tuple[Chunk, ...] | LakebedError] = []
        for item in items:
            body = item.body
            if body is None:
                found.append(())
            elif body.inline is None:
                for row in body.segments:
                    _keep_longest(rows, row)
                found.append(body.chunks)
            else:
                found.append((next(placed),) if failure is None else failure)
        return found

    def _write(self, records: Sequence[tuple[bytes, bytes]]) -> tuple[Sequence[Chunk], SegmentRow]:
        metadata_bytes = TRANSACTION_BYTES + REQUEST_WAL_BYTES * len(records)
        self._segments.check_room(metadata_bytes + sum(len(data) for _, data in records))
        writer = self._segments.borrow()
        try:
            return writer.append_synced(records), writer.row
        finally:
            self._segments.give_back(writer)  # one that is poisoned is not lent again


def _keep_longest(rows: dict[str, SegmentRow], row: SegmentRow) -> None:
    """Bodies share segments: one that came first does not know of what was put behind it."""
    known = rows.get(row.segment_id)
    if known is None or known.size < row.size:
        rows[row.segment_id] = row


def put_segments(writer: Writer, rows: Iterable[SegmentRow]) -> None:
    for row in rows:
        writer.put_segment(row)


def _operation(apply: Apply, chunks: tuple[Chunk, ...]) -> Callable[[Writer], Any]:
    return _checked(lambda writer: apply(writer, chunks))


def _checked(operation: Callable[[Writer], Any]) -> Callable[[Writer], Any]:
    def run(writer: Writer) -> Any:
        try:
            return operation(writer)
        except (ArithmeticError, TypeError, ValueError) as error:
            # What cannot be stored, such as a half of a surrogate pair: only its own request fails.
            raise InputError(f"a value cannot be stored: {error}") from error

    return run
