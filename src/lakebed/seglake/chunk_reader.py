"""Reads chunks from segments and verifies each chunk before it returns any of its bytes.

Invariant: the bytes that `read` returns have the requested hash, whatever the disk returned.
"""

from __future__ import annotations

import contextlib

from lakebed.base.errors import NotFound
from lakebed.base.files import Disk, File, PathLike
from lakebed.base.files.handles import Handles, Lease
from lakebed.base.files.writing import FILE_OFFSET_MAX
from lakebed.base.runner import Runner
from lakebed.kernels.checksum import blake3
from lakebed.seglake.chunk_cache import ChunkCache
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import Damaged
from lakebed.seglake.model import CHUNK_BYTES, Chunk
from lakebed.seglake.segment_file import HEADER_BYTES, RECORD_HEADER_BYTES, record_header
from lakebed.seglake.segment_id import is_segment_id, segment_path


class FilePlace:
    """A range of bytes in a segment file.

    The file stays open at least until `release` is called or Python frees this `FilePlace`.
    """

    __slots__ = ("_lease", "descriptor", "length", "offset")

    def __init__(self, lease: Lease[File], *, descriptor: int, offset: int, length: int) -> None:
        self._lease: Lease[File] | None = lease
        self.descriptor = descriptor
        self.offset = offset
        self.length = length

    def cut(self, start: int, end: int) -> None:
        """Narrows the range to the bytes from `start` up to, but not including, `end`.

        `start` and `end` are counted from the beginning of the current range.
        """
        self.offset += start
        self.length = end - start

    def release(self) -> None:
        """Ends the use of the file, which may then be closed. Idempotent."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.__exit__(None, None, None)

    def __del__(self) -> None:
        self.release()


class ChunkReader:
    """Reads and verifies chunks. Thread-safe.

    Segments can be read while they are being appended to, because a chunk that a manifest refers to
    is durable and never changes.
    """

    def __init__(
        self, folder: PathLike, *, disk: Disk, runner: Runner, config: SeglakeConfig
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._cache = ChunkCache(bytes_max=config.cache_bytes, mutex=runner.mutex())
        self._handles: Handles[str, File] = Handles(
            self._open, str, mutex=runner.mutex(), count_max=config.open_segments_max
        )

    def read(self, chunk: Chunk) -> memoryview:
        """Returns the bytes of the chunk.

        Raises `Damaged`, with path and offset, if the chunk is not cached, and is missing or not
        intact in its segment.
        """
        data = self._cache.get(chunk.hash)
        if data is not None and len(data) == chunk.length:
            return data
        data = self._read_record(chunk)
        self._cache.add(chunk.hash, data)
        return data

    def locate(self, chunk: Chunk) -> FilePlace | None:
        """Verifies the chunk and returns its file range, so that it can be sent with `sendfile`.

        Returns None if the file has no descriptor; then the caller must use `read`. Raises
        `Damaged` if the chunk is missing or not intact in its segment, even if it is cached. The
        bytes that are sent later are normally the verified ones, because a chunk never changes and
        is in the page cache after the verification, but they are not verified again.
        """
        self._read_record(chunk)
        lease = self._handles.lease(chunk.segment_id)
        with contextlib.ExitStack() as undo:
            descriptor = undo.enter_context(lease).descriptor()
            if descriptor is None:
                return None
            undo.pop_all()
        return FilePlace(lease, descriptor=descriptor, offset=chunk.offset, length=chunk.length)

    def close(self) -> None:
        """Closes the segment files. Idempotent.

        Bytes that were returned stay valid. A file that a `FilePlace` uses stays open until the
        `FilePlace` is released.
        """
        self._handles.close()

    def _read_record(self, chunk: Chunk) -> memoryview:
        chunk_hash, segment_id, offset, length = chunk
        start = offset - RECORD_HEADER_BYTES
        is_possible_offset = HEADER_BYTES <= start <= FILE_OFFSET_MAX - RECORD_HEADER_BYTES - length
        if not is_possible_offset or not 0 < length <= CHUNK_BYTES:
            raise self._damaged(
                chunk, "the chunk has an impossible offset or length", found=f"{length} bytes"
            )
        try:
            with self._handles.lease(segment_id) as file:
                record = file.pread(start, RECORD_HEADER_BYTES + length)
        except NotFound:
            raise self._damaged(chunk, "the segment file is missing") from None
        if len(record) < RECORD_HEADER_BYTES + length:
            length_read = f"{max(0, len(record) - RECORD_HEADER_BYTES)}"
            raise self._damaged(
                chunk,
                "the segment file ends before the end of the chunk",
                expected=f"{length} bytes",
                found=length_read,
            )
        view = memoryview(record)
        data = view[RECORD_HEADER_BYTES:]
        if view[:RECORD_HEADER_BYTES] != record_header(chunk_hash, length):
            raise self._damaged(
                chunk, "the chunk's header in the segment does not match the manifest"
            )
        actual_hash = blake3(data)
        if actual_hash != chunk_hash:
            raise self._damaged(
                chunk,
                "the chunk is damaged: wrong hash",
                expected=chunk_hash.hex(),
                found=actual_hash.hex(),
            )
        return data

    def _open(self, segment_id: str) -> File:
        if not is_segment_id(segment_id):
            raise NotFound(f"{segment_id!r} is not a valid segment id")
        return self._disk.open(segment_path(self._folder, segment_id))

    def _damaged(
        self, chunk: Chunk, problem: str, *, expected: object = None, found: object = None
    ) -> Damaged:
        return Damaged(
            problem,
            path=segment_path(self._folder, chunk.segment_id),
            offset=chunk.offset,
            expected=expected,
            found=found,
        )
