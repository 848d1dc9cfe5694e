"""Reading chunks: whole ones, checked before a byte of them leaves.

Invariant: what `read` returns has the hash that was asked for, whatever the disk gave.
"""

from __future__ import annotations

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
    """Bytes of a file that stays open until they are released, or nobody has them any more."""

    __slots__ = ("_lease", "descriptor", "length", "offset")

    def __init__(self, lease: Lease[File], *, descriptor: int, offset: int, length: int) -> None:
        self._lease: Lease[File] | None = lease
        self.descriptor = descriptor
        self.offset = offset
        self.length = length

    def cut(self, start: int, end: int) -> None:
        """To these of its bytes."""
        self.offset += start
        self.length = end - start

    def release(self) -> None:
        """Idempotent."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.__exit__(None, None, None)

    def __del__(self) -> None:
        self.release()


class ChunkReader:
    """Thread-safe. Segments are read beside whoever appends to them: a chunk that a manifest
    names is durable, and its bytes never change."""

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
        """All of the chunk's bytes. `Damaged`, with the place, if they are not what was stored."""
        data = self._cache.get(chunk.hash)
        if data is not None and len(data) == chunk.length:
            return data
        data = self._read_record(chunk)
        self._cache.add(chunk.hash, data)
        return data

    def locate(self, chunk: Chunk) -> FilePlace | None:
        """Where the chunk's bytes are, which were checked just now; None if it has to be read.

        For whoever sends them from there. They never change; that what is sent is what was checked
        rests on the operating system's cache.
        """
        self._read_record(chunk)
        lease = self._handles.lease(chunk.segment_id)
        descriptor = lease.__enter__().descriptor()
        if descriptor is None:
            lease.__exit__(None, None, None)
            return None
        return FilePlace(lease, descriptor=descriptor, offset=chunk.offset, length=chunk.length)

    def close(self) -> None:
        """Idempotent. Bytes that were handed out stay."""
        self._handles.close()

    def _read_record(self, chunk: Chunk) -> memoryview:
        chunk_hash, segment_id, offset, length = chunk
        start = offset - RECORD_HEADER_BYTES
        is_place = HEADER_BYTES <= start <= FILE_OFFSET_MAX - RECORD_HEADER_BYTES - length
        if not is_place or not 0 < length <= CHUNK_BYTES:
            raise self._damaged(chunk, "no chunk can be there", found=f"{length} bytes")
        try:
            with self._handles.lease(segment_id) as file:
                record = file.pread(start, RECORD_HEADER_BYTES + length)
        except NotFound:
            raise self._damaged(chunk, "the segment is missing") from None
        if len(record) < RECORD_HEADER_BYTES + length:
            found = f"{max(0, len(record) - RECORD_HEADER_BYTES)}"
            raise self._damaged(
                chunk, "the segment is cut short", expected=f"{length} bytes", found=found
            )
        view = memoryview(record)
        data = view[RECORD_HEADER_BYTES:]
        if view[:RECORD_HEADER_BYTES] != record_header(chunk_hash, length):
            raise self._damaged(chunk, "another record is there than the manifest says")
        found_hash = blake3(data)
        if found_hash != chunk_hash:
            raise self._damaged(
                chunk, "the chunk is damaged", expected=chunk_hash.hex(), found=found_hash.hex()
            )
        return data

    def _open(self, segment_id: str) -> File:
        if not is_segment_id(segment_id):
            raise NotFound(f"{segment_id!r} is no segment's id")
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
