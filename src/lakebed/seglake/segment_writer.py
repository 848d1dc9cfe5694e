"""The writer of one open segment: appends records, syncs them, and finally seals the segment.

Invariants:
- Every byte before `durable_end` is durable, and so is the file's directory entry.
- If the disk is full, a partial write is undone, and the segment stays usable. It also stays usable
  if a write or sync is refused because too many files are open and nothing was written.
- Any other failure poisons the segment: nothing more is written to it. Its durable records stay
  readable, and recovery seals it when the store is opened again.
- After `withdraw` nothing more is written, because another process may open the store and seal the
  file.

A crash may lose records that were appended but not synced.
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

# The number of records with which a segment counts as full. It is limited because the writer holds
# the index in memory, and builds the bloom filter from all of it when it seals the segment.
RECORDS_MAX = 1 << 18
_INDEX_BYTES_MAX = RECORDS_MAX * INDEX_ENTRY.size

Record = tuple[bytes, Buffer]
"""The BLAKE3 hash of a chunk, and the chunk's bytes."""


class SegmentWriter:
    """Writes one open segment. Not thread-safe, except for `withdraw`.

    It is used by its current borrower, or by the `SegmentPool` while it is not lent.
    """

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
        """`file` must be new and empty; the segment header is written with the first record."""
        self._segment_id = segment_id
        self._file = file
        self._entry = entry
        self._bytes_max = bytes_max
        self._clock = clock
        self._tail = FileTail(file, end=0)
        self._durable_end = 0
        self._index = bytearray()  # encoded, which takes a fifth of the memory of objects
        self._failure: str | None = None
        self._is_sealed = False
        self._mutex = mutex  # held during writes; guards _is_withdrawn
        self._is_withdrawn = False

    @property
    def segment_id(self) -> str:
        return self._segment_id

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self._tail.end

    @property
    def durable_end(self) -> int:
        """The offset after the last durable record."""
        return self._durable_end

    @property
    def is_full(self) -> bool:
        """Whether the segment has reached its maximum size or number of records."""
        return self._tail.end >= self._bytes_max or len(self._index) >= _INDEX_BYTES_MAX

    @property
    def is_empty(self) -> bool:
        """Whether the segment has no record."""
        return not self._index

    @property
    def is_poisoned(self) -> bool:
        return self._failure is not None

    @property
    def row(self) -> SegmentRow:
        """The segment's row, which a transaction that refers to the segment must record."""
        return SegmentRow(
            segment_id=self._segment_id,
            state="OPEN",
            size=self._durable_end,
            footer_checksum=None,
            created_ms=created_ms_of(self._segment_id),
            sealed_ms=None,
        )

    def append(self, chunk_hash: bytes, data: Buffer) -> Chunk:
        """Writes one record and returns its chunk. The next `sync` makes the record durable."""
        records = [(chunk_hash, data)]
        buffers = self._buffers(records)
        with self._writing():
            return self._note(self._tail.write(buffers), records)[0]

    def append_synced(self, records: Sequence[Record]) -> list[Chunk]:
        """Writes and syncs all records in one disk operation, and returns their chunks."""
        buffers = self._buffers(records)
        with self._syncing():
            return self._note(self._tail.commit(buffers), records)

    def sync(self) -> None:
        """Makes all appended records and the file's directory entry durable."""
        with self._syncing():
            self._tail.sync()

    def seal(self) -> SegmentRow:
        """Appends bloom filter, index and footer, syncs the file and closes it.

        The caller must record the returned row in the metadata.
        """
        assert self._index, "an empty segment is discarded, not sealed"
        seal = seal_block(list(INDEX_ENTRY.iter_unpack(self._index)), data_end=self._tail.end)
        with self._syncing():
            self._tail.commit([seal.data])
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
        """Makes all further writes fail, after waiting for a write in progress. Thread-safe."""
        with self._mutex:
            self._is_withdrawn = True

    def close(self) -> None:
        """Closes the file without sealing it. Idempotent."""
        self._file.close()

    def _buffers(self, records: Sequence[Record]) -> list[Buffer]:
        buffers: list[Buffer] = [] if self._tail.end else [segment_header()]
        for chunk_hash, data in records:
            assert 0 < len(data) <= CHUNK_BYTES, "a chunk has 1 byte to 4 MiB"
            buffers += (record_header(chunk_hash, len(data)), data)
        return buffers

    def _note(self, starts: Sequence[int], records: Sequence[Record]) -> list[Chunk]:
        """Adds written records to the index and returns their chunks.

        `starts` are the file offsets of all buffers written. The last two for each record are those
        of its header and its data; a segment header may come before them.
        """
        offsets = starts[len(starts) - 2 * len(records) + 1 :: 2]
        chunks = [
            Chunk(chunk_hash, self._segment_id, offset, len(data))
            for (chunk_hash, data), offset in zip(records, offsets, strict=True)
        ]
        for chunk in chunks:
            self._index += INDEX_ENTRY.pack(IndexEntry(chunk.offset, chunk.hash))
        return chunks

    @contextlib.contextmanager
    def _syncing(self) -> Iterator[None]:
        """Encloses a sync of the file, and updates `durable_end` after it.

        Makes the file's directory entry durable first: if too many files are open for that, nothing
        was written, and the call can be repeated.
        """
        with self._writing():
            self._entry.sync()
            yield
            self._durable_end = self._tail.durable_end

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._mutex:
            if self._is_withdrawn:
                raise Closed("the object store is closed")
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
            raise  # nothing was written
        except NoSpace:
            self._failure = "a partial write on a full disk could not be undone"
            if self._file.size() == self._tail.end:  # the partial write was truncated
                self._failure = None
            raise
        except BaseException as error:
            self._failure = f"refused after an earlier failure: {error}"
            raise
