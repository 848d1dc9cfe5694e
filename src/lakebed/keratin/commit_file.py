"""The file `commit.bin`, which makes all batches of a commit durable before the first is appended.

    new = NewCommit(disk, path, application="query 7", version=41, producer_id=…, created_ms=…)
    for batch in batches:
        new.add(batch)
    new.finish()
    new.publish()                          # from here on, all batches will be appended
    with load_commit(disk, path) as commit:
        for batch in commit.batches(): …

Each batch is written as it will appear in the log, except for its first offset. All batches have a
producer id that is unique to this commit, epoch 0, and sequences that start at 0. The messages of
that producer in the log show which batches have been appended. Batches are written in pieces of
about 1 MiB and read one by one, so memory is bounded.

Invariant: a file named `commit.bin` is complete, and every byte of it is durable. An unfinished
file has a temporary name, and is removed with the other temporary files when the partition is
opened.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import TracebackType

from lakebed.base.errors import Corrupt, LakebedError, TooLarge, Torn, UnknownVersion
from lakebed.base.files import Disk, File
from lakebed.base.units import GIB, MIB
from lakebed.keratin.format import (
    COMMIT_HEADER,
    COMMIT_MAGIC,
    VERSION,
    CommitHeader,
    record_bytes,
)
from lakebed.keratin.headers import SEQUENCE_COUNT, Producer
from lakebed.keratin.record_batch import message_count_of, size_of, with_producer
from lakebed.kernels import crc32c
from lakebed.kernels.format import RECORD_BATCH

COMMIT_BYTES_MAX = 4 * GIB  # of the batches of one partition
COMMIT_MESSAGES_MAX = SEQUENCE_COUNT // 2

_PIECE_BYTES = 1 * MIB
_CHECKED_BYTES = COMMIT_HEADER.offset_of("crc32c")


class NewCommit:
    """A commit file that is being written.

    Its creator must call `finish` and then `publish`, or call `discard`.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        *,
        application: str,
        version: int,
        producer_id: int,
        created_ms: int,
    ) -> None:
        self._disk = disk
        self._path = path
        name = application.encode()
        self._header = CommitHeader(
            COMMIT_MAGIC, VERSION, 0, COMMIT_HEADER.size, producer_id, version, created_ms,
            application_bytes=len(name), batch_count=0, message_count=0, batches_bytes=0,
            body_crc32c=crc32c(name), crc32c=0,
        )  # fmt: skip
        self._pieces = [name]  # not written yet
        self._pieces_bytes = len(name)
        self._end = COMMIT_HEADER.size  # the end of the bytes written so far
        self._temporary: str | None = disk.temporary_name(path)
        self._file = disk.create(self._temporary)

    @property
    def missing_bytes(self) -> int:
        """The disk space that the commit still needs, in this file and in the log, in bytes."""
        return self._pieces_bytes + log_bytes(self._header)

    def add(self, batch: bytes) -> None:
        """Adds one record batch, which the caller has already validated.

        Raises `TooLarge` if the commit would exceed `COMMIT_MESSAGES_MAX` or `COMMIT_BYTES_MAX`.
        """
        header, count = self._header, message_count_of(batch)
        producer = Producer(header.producer_id, 0, header.message_count)
        _check_limit("messages", header.message_count + count, COMMIT_MESSAGES_MAX)
        _check_limit("bytes", header.batches_bytes + len(batch), COMMIT_BYTES_MAX)
        stamped = with_producer(batch, producer)
        self._header = header._replace(
            batch_count=header.batch_count + 1,
            message_count=header.message_count + count,
            batches_bytes=header.batches_bytes + len(stamped),
            body_crc32c=crc32c(stamped, header.body_crc32c),
        )
        self._pieces.append(stamped)
        self._pieces_bytes += len(stamped)
        if self._pieces_bytes >= _PIECE_BYTES:
            self._write()

    def finish(self) -> None:
        """Writes the batches that are still in memory and the header; makes every byte durable."""
        self._write()
        self._file.write_and_sync(0, [_sealed(self._header)])
        self._file.close()

    def publish(self) -> None:
        """Renames the file to its final name, durably.

        If this raises, the caller must not append the batches. If the file has its final name
        nevertheless, its batches are appended before the partition's next commit, or when the
        partition is opened.
        """
        assert self._temporary is not None, "published twice"
        self._disk.rename(self._temporary, self._path)
        self._temporary = None
        try:
            self._disk.sync_folder(os.path.dirname(self._path))
        except LakebedError:
            # If the file survives a power cut in spite of this, recovery appends all its batches.
            self._disk.unlink(self._path)
            raise

    def discard(self) -> None:
        """Closes the file, and removes it if it was not published. Idempotent.

        If the file cannot be removed, it remains as a temporary file.
        """
        self._file.close()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            with contextlib.suppress(LakebedError):
                self._disk.unlink(temporary)

    def _write(self) -> None:
        if self._pieces:
            self._file.pwrite(self._end, b"".join(self._pieces))
            self._end += self._pieces_bytes
            self._pieces, self._pieces_bytes = [], 0


class Commit:
    """A published commit file whose bytes were verified; its batches can be appended to the log."""

    def __init__(self, file: File, header: CommitHeader, application: str) -> None:
        self._file = file
        self.header = header
        self.application = application

    @property
    def version(self) -> int:
        return self.header.application_version

    def batches(self) -> Iterator[bytes]:
        position = COMMIT_HEADER.size + self.header.application_bytes
        for _ in range(self.header.batch_count):
            head = self._file.pread(position, RECORD_BATCH.size)
            size = size_of(head, path=self._file.path, start=position)
            yield self._file.pread(position, size)
            position += size

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Commit:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load_commit(disk: Disk, path: str) -> Commit:
    """Opens and verifies the commit file.

    Raises `NotFound` if the file does not exist, `Torn` or `Corrupt` if it is damaged, and
    `UnknownVersion` if a newer release wrote it.
    """
    file = disk.open(path)
    try:
        header = _read_header(file)
        application = _verified(file, header)
    except BaseException:
        file.close()
        raise
    return Commit(file, header, application)


def checksum_of(disk: Disk, path: str) -> int:
    """Returns the CRC-32C of all bytes of a file."""
    with disk.open(path) as file:
        return _checksum(file, 0)


def log_bytes(header: CommitHeader) -> int:
    """Returns the number of bytes that the batches of a commit take in a log."""
    return header.batches_bytes + header.batch_count * record_bytes(0, 0)


def _sealed(header: CommitHeader) -> bytes:
    crc = crc32c(COMMIT_HEADER.pack(header)[:_CHECKED_BYTES])
    return COMMIT_HEADER.pack(header._replace(crc32c=crc))


def _read_header(file: File) -> CommitHeader:
    path, size = file.path, file.size()
    data = file.pread(0, COMMIT_HEADER.size)
    if len(data) < COMMIT_HEADER.size:
        raise Torn(
            "the commit file is shorter than its header",
            path=path,
            offset=0,
            found=len(data),
        )
    header, crc = COMMIT_HEADER.unpack(data), crc32c(data[:_CHECKED_BYTES])
    is_sound, is_ours = crc == header.crc32c, header.header_length == COMMIT_HEADER.size
    if header.magic == COMMIT_MAGIC and header.version > VERSION and (is_sound or not is_ours):
        # A flipped bit in the version would leave the length as ours and the checksum wrong.
        raise UnknownVersion(
            "unsupported commit file version", path=path, expected=VERSION, found=header.version
        )
    if header.magic != COMMIT_MAGIC or not is_sound or not is_ours:
        raise Corrupt("the header of the commit file is damaged", path=path, offset=0)
    expected = COMMIT_HEADER.size + header.application_bytes + header.batches_bytes
    if size < expected:
        raise Torn("the commit file is cut short", path=path, expected=expected, found=size)
    if size > expected:
        raise Corrupt("unexpected bytes after the end of the commit", path=path, offset=expected)
    return header


def _verified(file: File, header: CommitHeader) -> str:
    """Verifies the checksum of everything after the header, and returns the application's name."""
    crc = _checksum(file, COMMIT_HEADER.size)
    if crc != header.body_crc32c:
        raise Corrupt(
            "the checksum of the commit file is wrong",
            path=file.path,
            offset=COMMIT_HEADER.size,
            expected=f"{header.body_crc32c:#010x}",
            found=f"{crc:#010x}",
        )
    return file.pread(COMMIT_HEADER.size, header.application_bytes).decode()


def _checksum(file: File, start: int) -> int:
    crc, end = 0, file.size()
    for position in range(start, end, _PIECE_BYTES):
        crc = crc32c(file.pread(position, min(_PIECE_BYTES, end - position)), crc)
    return crc


def _check_limit(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(f"the size of a commit to one partition, in {what},", size=size, limit=limit)
