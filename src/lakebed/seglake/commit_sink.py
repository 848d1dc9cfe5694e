"""The sink of the lake's barrier: many changes, one sync of the segment, one transaction.

In this order: the bodies that came along are written into one segment and synced; the transaction
takes the segments' new lengths, then each change by itself; the WAL is synced; all tickets are
fulfilled.

A sync of the segment that failed fails the changes whose bodies it covered, and that segment is
not written to again. A COMMIT that failed fails all of its changes: whether they happened is not
known, so none is reported done. Later changes go on in a new segment, on new connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Protocol

from lakebed.base.clock import Clock
from lakebed.base.errors import InputError, LakebedError
from lakebed.base.units import KIB
from lakebed.seglake.change import Change
from lakebed.seglake.meta.database import Database, GroupedOperations
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import Chunk
from lakebed.seglake.segment_pool import SegmentPool
from lakebed.seglake.versions import PlannedPut


class PutAll(Protocol):
    def __call__(self, writer: Writer, puts: Sequence[PlannedPut]) -> Sequence[Any]: ...


TRANSACTION_BYTES, CHANGE_WAL_BYTES = 64 * KIB, 16 * KIB  # of disk: pages of the write-ahead log


class CommitSink:
    """The sink of the barrier, whose leader alone uses it."""

    def __init__(
        self, segments: SegmentPool, database: Database, put_all: PutAll, *, clock: Clock
    ) -> None:
        self._segments = segments
        self._database = database
        self._put_all = put_all
        self._clock = clock
        # How often and when last it was used, for whoever works in the pauses.
        self.commit_count = 0
        self.used_ns = 0

    def commit(self, items: Sequence[Change[Any]]) -> list[Any]:
        """The result of each, or its error."""
        self.commit_count += 1
        self.used_ns = self._clock.monotonic_ns()
        rows: dict[str, SegmentRow] = {}
        chunks = self._write_bodies(items, rows)
        failed: dict[int, LakebedError] = {}
        placed: list[tuple[Change[Any], tuple[Chunk, ...]]] = []
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
        self, placed: Sequence[tuple[Change[Any], tuple[Chunk, ...]]]
    ) -> list[Callable[[Writer], Any] | GroupedOperations[Any]]:
        """One for each, in order; those of planned puts that follow one another are together."""
        operations: list[Callable[[Writer], Any] | GroupedOperations[Any]] = []
        for is_planned, some in groupby(placed, key=lambda one: one[0].plan is not None):
            changes = list(some)
            singles = [_operation(change.apply, chunks) for change, chunks in changes]
            if not is_planned:
                operations += singles
                continue
            puts = [change.plan(chunks) for change, chunks in changes if change.plan is not None]
            operations.append(
                GroupedOperations(_checked(partial(self._put_all, puts=puts)), singles)
            )
        return operations

    def _write_bodies(
        self, items: Sequence[Change[Any]], rows: dict[str, SegmentRow]
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
        metadata_bytes = TRANSACTION_BYTES + CHANGE_WAL_BYTES * len(records)
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


def _operation(
    apply: Callable[[Writer, tuple[Chunk, ...]], Any], chunks: tuple[Chunk, ...]
) -> Callable[[Writer], Any]:
    return _checked(lambda writer: apply(writer, chunks))


def _checked(operation: Callable[[Writer], Any]) -> Callable[[Writer], Any]:
    def run(writer: Writer) -> Any:
        try:
            return operation(writer)
        except (ArithmeticError, TypeError, ValueError) as error:
            # What cannot be stored, such as a half of a surrogate pair: only its own request fails.
            raise InputError(f"a value cannot be stored: {error}") from error

    return run
