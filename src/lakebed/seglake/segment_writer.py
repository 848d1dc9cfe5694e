"""One open segment, while one thread has it: records are appended, synced, and in the end sealed.

Invariants:
- every byte below `durable_end` is durable, and so is the file's entry in its folder;
- a write that found the disk full leaves nothing behind, and the segment can be used on;
- after any other failure the segment is poisoned: nothing is written to it any more. What was
  durable before stays readable; recovery seals it when the lake is opened the next time;
- after `withdraw` not a byte is written: somebody else may have sealed the file by then.

What may be lost: what was appended and not synced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.commit.tail import FileTail
from lakebed.base.errors import Closed, NoSpace, Poisoned, TooManyFiles
from lakebed.base.files import File
from lakebed.base.layout import Buffer
from lakebed.base.runner import Mutex
from lakebed.seglake.format import INDEX_ENTRY, IndexEntry
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.model import CHUNK_BYTES, Chunk
from lakebed.seglake.segment_file import record_header, seal_block, segment_header
from lakebed.seglake.segment_folder import Entry
from lakebed.seglake.segment_id import created_ms_of

RECORDS_MAX = 1 << 18  # of a segment: its index is held in memory, and made into a filter at once
_INDEX_BYTES_MAX = RECORDS_MAX * INDEX_ENTRY.size

Record = tuple[bytes, Buffer]
"""A chunk's BLAKE3, and its bytes."""


class SegmentWriter:
    """For one thread at a time: who borrowed it from `Segments`."""

    def __init__(
        self,
        file: File,
        entry: Entry,
        *,
        segment_id: str,
        bytes_max: int,
        clock: Clock,
        mutex: Mutex,
    ) -> None:
        """`file` is new and empty: the header is written with the first record."""
        self._segment_id = segment_id
        self._file = file
        self._entry = entry
        self._bytes_max = bytes_max
        self._clock = clock
        self._tail = FileTail(file, end=0)
        self._durable_end = 0
        self._index = bytearray()  # as it is written: a fifth of what objects would take
        self._failure: str | None = None
        self._is_sealed = False
        self._mutex = mutex  # held while it writes; guards _is_withdrawn
        self._is_withdrawn = False

    @property
    def segment_id(self) -> str:
        return self._segment_id

    @property
    def end(self) -> int:
        """Behind the last record."""
        return self._tail.end

    @property
    def durable_end(self) -> int:
        """Behind the last record that a crash leaves alone."""
        return self._durable_end

    @property
    def is_full(self) -> bool:
        """As large as a segment should become: the next record belongs into another."""
        return self._tail.end >= self._bytes_max or len(self._index) >= _INDEX_BYTES_MAX

    @property
    def is_empty(self) -> bool:
        """No record is in it: nothing refers to it."""
        return not self._index

    @property
    def is_poisoned(self) -> bool:
        return self._failure is not None

    @property
    def row(self) -> SegmentRow:
        """What a transaction that refers to the segment records of it."""
        return SegmentRow(
            segment_id=self._segment_id,
            state="OPEN",
            size=self._durable_end,
            footer_checksum=None,
            created_ms=created_ms_of(self._segment_id),
            sealed_ms=None,
        )

    def append(self, chunk_hash: bytes, data: Buffer) -> Chunk:
        """One record: written, and durable with the next sync."""
        records = [(chunk_hash, data)]
        buffers = self._buffers(records)
        with self._writing():
            return self._note(self._tail.write(buffers), records)[0]

    def append_synced(self, records: Sequence[Record]) -> list[Chunk]:
        """All of them, durable when it returns, with one call to the disk."""
        buffers = self._buffers(records)
        with self._writing():
            chunks = self._note(self._tail.commit(buffers), records)
            self._confirm()
        return chunks

    def sync(self) -> None:
        """All that was appended, and the file's entry in its folder, become durable."""
        with self._writing():
            self._tail.sync()
            self._confirm()

    def seal(self) -> SegmentRow:
        """Put bloom filter, index and footer behind the records; durable when it returns.

        The file is closed then. Its row is to be recorded after this.
        """
        assert self._index, "an empty segment is discarded, not sealed"
        seal = seal_block(list(INDEX_ENTRY.iter_unpack(self._index)), data_end=self._tail.end)
        with self._writing():
            self._tail.commit([seal.data])
            self._confirm()
        self._is_sealed = True
        self.close()
        return SegmentRow(
            segment_id=self._segment_id,
            state="SEALED",
            size=self._durable_end,
            footer_checksum=seal.checksum,
            created_ms=created_ms_of(self._segment_id),
            sealed_ms=self._clock.wall_ns() // NS_PER_MS,
        )

    def withdraw(self) -> None:
        """From another thread: whoever has it writes no more. Waits for a write under way."""
        with self._mutex:
            self._is_withdrawn = True

    def close(self) -> None:
        """Let go of the file as it is. Idempotent."""
        self._file.close()

    def _buffers(self, records: Sequence[Record]) -> list[Buffer]:
        buffers: list[Buffer] = [] if self._tail.end else [segment_header()]
        for chunk_hash, data in records:
            assert 0 < len(data) <= CHUNK_BYTES, "a chunk has 1 byte to 4 MiB"
            buffers += (record_header(chunk_hash, len(data)), data)
        return buffers

    def _note(self, starts: Sequence[int], records: Sequence[Record]) -> list[Chunk]:
        """Where the records are. `starts` are those of all buffers, the data's every second."""
        offsets = starts[len(starts) - 2 * len(records) + 1 :: 2]
        chunks = [
            Chunk(chunk_hash, self._segment_id, offset, len(data))
            for (chunk_hash, data), offset in zip(records, offsets, strict=True)
        ]
        for chunk in chunks:
            self._index += INDEX_ENTRY.pack(IndexEntry(chunk.offset, chunk.hash))
        return chunks

    def _confirm(self) -> None:
        """The bytes are durable: they count once their file's name is."""
        self._entry.sync()
        self._durable_end = self._tail.durable_end

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._mutex:
            if self._is_withdrawn:
                raise Closed("the lake is closed")
            if self._failure is not None:
                raise Poisoned("write", self._file.path, why=self._failure)
            assert not self._is_sealed, "a sealed segment is never changed"
            with self._noting_failure():
                yield

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except TooManyFiles:
            raise  # refused before a byte was written
        except NoSpace:
            self._failure = "a refused write could not be undone"
            if self._file.size() == self._tail.end:  # the tail has cut what was written of it
                self._failure = None
            raise
        except BaseException as error:
            self._failure = f"refused after a failure: {error}"
            raise
