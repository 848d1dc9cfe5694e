"""Commits a batch of changes with one segment sync and one SQLite transaction.

The steps are, in order:

1. write the small bodies of the batch into one segment and sync it;
2. in one transaction, record the segments' new sizes, then apply each change in a savepoint
   (consecutive puts without a condition share one);
3. commit the transaction, which syncs the WAL.

If step 1 fails, the changes with small bodies fail and the others are committed; a segment whose
sync failed is not used again. If the transaction fails, all changes of the batch fail. If an I/O
error was the reason, it is unknown whether they happened, and later changes use new connections.
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


# Disk space that a transaction, and each change in it, may take in the write-ahead log.
TRANSACTION_BYTES, CHANGE_WAL_BYTES = 64 * KIB, 16 * KIB


class CommitSink:
    """Commits the batches of the commit barrier. Called by one thread at a time."""

    def __init__(
        self, segments: SegmentPool, database: Database, put_all: PutAll, *, clock: Clock
    ) -> None:
        self._segments = segments
        self._database = database
        self._put_all = put_all
        self._clock = clock
        # The number of commits and the time of the last one, for work that waits for pauses.
        self.commit_count = 0
        self.used_ns = 0

    def commit(self, items: Sequence[Change[Any]]) -> list[Any]:
        """Commits the changes and returns the result or the error of each, in the same order."""
        self.commit_count += 1
        self.used_ns = self._clock.monotonic_ns()
        rows: dict[str, SegmentRow] = {}
        chunks = self._write_bodies(items, rows)
        failed: dict[int, LakebedError] = {}
        placed: list[tuple[Change[Any], tuple[Chunk, ...]]] = []
        for index, (item, outcome) in enumerate(zip(items, chunks, strict=True)):
            if isinstance(outcome, LakebedError):
                failed[index] = outcome
            else:
                placed.append((item, outcome))
        operations = self._operations(placed)
        if rows:
            operations.insert(0, lambda writer: put_segments(writer, rows.values()))
        try:
            results = self._database.write(operations)
        except LakebedError as error:
            return [failed.get(index, error) for index in range(len(items))]
        outcomes = iter(results[1:] if rows else results)
        if rows and isinstance(results[0], LakebedError):
            # No change is valid without its segments; the database rolled back each of them.
            return [failed.get(index, results[0]) for index in range(len(items))]
        return [failed[index] if index in failed else next(outcomes) for index in range(len(items))]

    def _operations(
        self, placed: Sequence[tuple[Change[Any], tuple[Chunk, ...]]]
    ) -> list[Callable[[Writer], Any] | GroupedOperations[Any]]:
        """Returns the database operations of the changes, in order.

        Consecutive changes with a `plan` become one operation, which needs fewer statements.
        """
        operations: list[Callable[[Writer], Any] | GroupedOperations[Any]] = []
        for is_planned, group in groupby(placed, key=lambda pair: pair[0].plan is not None):
            changes = list(group)
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
        """Writes the bodies held in memory and syncs them.

        Returns, for each change, the chunks of its body, or the error if the body could not be
        written. Adds the rows of all segments that hold these chunks to `rows`.
        """
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
        outcomes: list[tuple[Chunk, ...] | LakebedError] = []
        for item in items:
            body = item.body
            if body is None:
                outcomes.append(())
            elif body.inline is None:
                for row in body.segments:
                    _keep_longest(rows, row)
                outcomes.append(body.chunks)
            else:
                outcomes.append((next(placed),) if failure is None else failure)
        return outcomes

    def _write(self, records: Sequence[tuple[bytes, bytes]]) -> tuple[Sequence[Chunk], SegmentRow]:
        metadata_bytes = TRANSACTION_BYTES + CHANGE_WAL_BYTES * len(records)
        self._segments.check_room(metadata_bytes + sum(len(data) for _, data in records))
        writer = self._segments.borrow()
        try:
            return writer.append_synced(records), writer.row
        finally:
            self._segments.give_back(writer)  # the pool does not lend a poisoned writer again


def _keep_longest(rows: dict[str, SegmentRow], row: SegmentRow) -> None:
    """Adds the row to `rows`, unless it has a row of this segment with at least the same size."""
    recorded = rows.get(row.segment_id)
    if recorded is None or recorded.size < row.size:
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
            # A value such as half of a surrogate pair must fail only its own request.
            raise InputError(
                f"a value of the request cannot be stored in the metadata: {error}"
            ) from error

    return run
