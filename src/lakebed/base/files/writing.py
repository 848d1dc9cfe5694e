"""The loop that writes bytes to a file at an offset and then syncs once.

The loop decides what to write and what to retry, and calls functions that are passed in. The
compiled kernels have the same loop in C. So the simulated disk and the real disk, with or without
the compiled kernels, follow the same rules:

- a call writes at most `WRITE_BYTES_MAX`; a short write continues where it stopped;
- chunks under `GATHER_BYTES` are joined, so that many small ones take one call; larger chunks, and
  a chunk with no neighbour, are written without a copy;
- after EINTR a write is repeated, and after EAGAIN up to `AGAIN_COUNT_MAX` times in a row, because
  those calls did not reach a device. Any other error ends the loop. A call that writes 0 bytes
  counts as EIO;
- the sync follows only a complete write. It is repeated only after EINTR: after any other error the
  kernel may have dropped the pages, and a second sync would "succeed" without them.

Disk errors are returned, not raised, because the caller knows the file and the data. After an
outcome that is not `ok`, any part of the range may have been written.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from lakebed.base.errors import InputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

WRITE_BYTES_MAX = 1 << 20  # of one call: larger ones are slower
GATHER_BYTES = 64 << 10  # from here on copying costs more than a call
AGAIN_COUNT_MAX = 1000
FILE_OFFSET_MAX = (1 << 63) - 1

WriteOnce = Callable[[int, memoryview], int]
"""Writes some bytes of the view at the offset and returns how many; raises `OSError` on failure."""

SyncOnce = Callable[[], None]
"""Makes the written bytes durable; raises `OSError` on failure."""

_ZEROS = bytes(WRITE_BYTES_MAX)


class WriteOutcome(NamedTuple):
    """The outcome of a write and its sync. An errno of 0 means that the write or sync succeeded or
    was not tried.
    """

    written: int
    write_errno: int
    sync_errno: int

    @property
    def ok(self) -> bool:
        return self.write_errno == 0 and self.sync_errno == 0


def write_all(
    write_once: WriteOnce,
    offset: int,
    chunks: Iterable[ReadableBuffer],
    *,
    sync_once: SyncOnce | None = None,
) -> WriteOutcome:
    """Writes the chunks one after another at `offset`, then syncs if `sync_once` is given."""
    views = byte_views(chunks, "chunk")
    check_range(offset, sum(map(len, views)))
    outcome = _write_pieces(write_once, offset, _pieces(views))
    if outcome.write_errno or sync_once is None:
        return outcome
    return outcome._replace(sync_errno=_sync(sync_once))


def zero_all(write_once: WriteOnce, offset: int, length: int) -> WriteOutcome:
    """Writes `length` zero bytes at `offset`, without a sync."""
    check_range(offset, length)
    zeros = memoryview(_ZEROS)
    full_count, rest = divmod(length, WRITE_BYTES_MAX)
    pieces = (zeros if i < full_count else zeros[:rest] for i in range(full_count + (rest > 0)))
    return _write_pieces(write_once, offset, pieces)


def byte_views(values: Iterable[ReadableBuffer], what: str) -> list[memoryview]:
    """Returns a flat view of the bytes of each value. Raises `InputError` if a value is not
    bytes-like or not contiguous. `what` is the word for a value in errors.
    """
    try:
        items = tuple(values)
    except TypeError:
        raise InputError(f"{what}s must be a sequence, not {type(values).__name__}") from None
    return [byte_view(item, f"{what} {index}") for index, item in enumerate(items)]


def byte_view(value: ReadableBuffer, what: str) -> memoryview:
    """Returns a flat view of the bytes of `value`. Raises `InputError` if `value` is not bytes-like
    or not contiguous. `what` is the name of `value` in errors.
    """
    try:
        view = memoryview(value)
    except (TypeError, BufferError, ValueError):
        raise InputError(
            f"{what} must be a bytes-like object, not {type(value).__name__}"
        ) from None
    if not view.c_contiguous:
        raise InputError(f"{what} must be contiguous in memory")
    return view.cast("B") if view.nbytes else memoryview(b"")


def check_range(offset: int, length: int) -> None:
    """Raises `InputError` if `[offset, offset + length)` cannot be a range of a file."""
    if offset < 0:
        raise InputError(f"offset is {offset}, but must not be negative")
    if length < 0:
        raise InputError(f"length is {length}, but must not be negative")
    if offset + length > FILE_OFFSET_MAX:
        raise InputError(f"{length} bytes at offset {offset} end after the largest file offset")


def _pieces(views: list[memoryview]) -> Iterator[memoryview]:
    """Yields pieces to write with one call each: several small chunks joined, or a part of a large
    chunk.
    """
    scratch = bytearray(min(sum(map(len, views)), WRITE_BYTES_MAX))
    gathered = memoryview(scratch)
    used = 0
    for index, view in enumerate(views):
        alone = used == 0 and index == len(views) - 1
        direct = alone or len(view) >= GATHER_BYTES
        if used and (direct or used + len(view) > WRITE_BYTES_MAX):
            yield gathered[:used]
            used = 0
        if direct:
            for start in range(0, len(view), WRITE_BYTES_MAX):
                yield view[start : start + WRITE_BYTES_MAX]
        else:
            gathered[used : used + len(view)] = view
            used += len(view)
    if used:
        yield gathered[:used]


def _write_pieces(write_once: WriteOnce, offset: int, pieces: Iterable[memoryview]) -> WriteOutcome:
    written = 0
    for piece in pieces:
        while len(piece):
            count, code = _write(write_once, offset + written, piece)
            if code:
                return WriteOutcome(written, code, 0)
            written += count
            piece = piece[count:]
    return WriteOutcome(written, 0, 0)


def _write(write_once: WriteOnce, offset: int, piece: memoryview) -> tuple[int, int]:
    """Calls `write_once` until it succeeds or fails with an error that is not retried. Returns the
    number of bytes written and the errno; one of them is 0.
    """
    again_count = 0
    while True:
        try:
            count = write_once(offset, piece)
        except OSError as error:
            if error.errno == errno.EINTR:
                continue
            if error.errno == errno.EAGAIN and again_count < AGAIN_COUNT_MAX:
                again_count += 1
                continue
            return 0, error.errno or errno.EIO
        return (count, 0) if count > 0 else (0, errno.EIO)


def _sync(sync_once: SyncOnce) -> int:
    while True:
        try:
            sync_once()
        except OSError as error:
            if error.errno == errno.EINTR:
                continue
            return error.errno or errno.EIO
        return 0
