"""The file `checkpoint`: lets recovery skip most of the active segment when a partition is opened.

It holds the index entries of the active segment and the last sequences of all producers (see
`producers`), for the records before a position in the log. They are copied between two commits, and
all of these records are durable. The file is only a shortcut: if it is missing or damaged, has a
newer version or belongs to another segment, recovery scans the whole active segment.

What may be lost: nothing. Of the records before the position, only the last one is read when a
partition is opened. Damage to the others is found later, by readers and by
`partition_verification`, as in a sealed segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import Disk, PathLike, read_file, replace_atomically
from lakebed.base.layout import Buffer
from lakebed.base.units import MIB
from lakebed.keratin.format import (
    CHECKPOINT_HEADER,
    CHECKPOINT_MAGIC,
    INDEX_ENTRY,
    PRODUCER_RUN,
    TIME_ENTRY,
    VERSION,
    CheckpointHeader,
    IndexEntry,
    ProducerRun,
    TimeEntry,
)
from lakebed.keratin.segment import ActiveSegment
from lakebed.kernels import crc32c

_BYTES_MAX = 512 * MIB
_CHECKED_BYTES = CHECKPOINT_HEADER.offset_of("crc32c")


class Checkpoint(NamedTuple):
    """The contents of a checkpoint file; `CheckpointHeader` describes the first seven fields."""

    base_offset: int
    created_ms: int
    position: int
    last_position: int
    next_offset: int
    timestamp_ms_max: int
    indexed_end: int
    places: Sequence[IndexEntry]  # the entries of the segment's `.idx`
    times: Sequence[TimeEntry]  # the entries of its `.tidx`
    runs: Sequence[ProducerRun]  # of all producers

    @property
    def size(self) -> int:
        """The size of the checkpoint file in bytes."""
        entries = len(self.places) * (INDEX_ENTRY.size + TIME_ENTRY.size)
        return CHECKPOINT_HEADER.size + entries + len(self.runs) * PRODUCER_RUN.size

    def segment(self, *, index_stride_bytes: int) -> ActiveSegment:
        """Returns the active segment as it was when the checkpoint was made."""
        segment = ActiveSegment(
            base_offset=self.base_offset,
            created_ms=self.created_ms,
            index_stride_bytes=index_stride_bytes,
            next_offset=self.next_offset,
        )
        segment.end = self.position
        segment.last_position = self.last_position
        segment.timestamp_ms_max = self.timestamp_ms_max
        segment.indexed_end = self.indexed_end
        segment.places, segment.times = list(self.places), list(self.times)
        return segment


def checkpoint_of(segment: ActiveSegment, runs: Sequence[ProducerRun]) -> Checkpoint:
    """Makes a checkpoint of a segment whose records are all durable, and of all producers' runs."""
    return Checkpoint(
        base_offset=segment.base_offset,
        created_ms=segment.created_ms,
        position=segment.end,
        last_position=segment.last_position,
        next_offset=segment.next_offset,
        timestamp_ms_max=segment.timestamp_ms_max,
        indexed_end=segment.indexed_end,
        places=tuple(segment.places),
        times=tuple(segment.times),
        runs=runs,
    )


def save_checkpoint(disk: Disk, path: PathLike, checkpoint: Checkpoint) -> None:
    replace_atomically(disk, path, encode_checkpoint(checkpoint))


def load_checkpoint(disk: Disk, path: PathLike) -> Checkpoint:
    """Reads and decodes the checkpoint file.

    Raises `NotFound`, `Torn`, `Corrupt` or `UnknownVersion` if there is no usable checkpoint.
    """
    return decode_checkpoint(read_file(disk, path, size_max=_BYTES_MAX), path=path)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    body = b"".join(
        (
            *map(INDEX_ENTRY.pack, checkpoint.places),
            *map(TIME_ENTRY.pack, checkpoint.times),
            *map(PRODUCER_RUN.pack, checkpoint.runs),
        )
    )
    header = CheckpointHeader(
        magic=CHECKPOINT_MAGIC,
        version=VERSION,
        flags=0,
        header_length=CHECKPOINT_HEADER.size,
        base_offset=checkpoint.base_offset,
        created_ms=checkpoint.created_ms,
        position=checkpoint.position,
        last_position=checkpoint.last_position,
        next_offset=checkpoint.next_offset,
        timestamp_ms_max=checkpoint.timestamp_ms_max,
        indexed_end=checkpoint.indexed_end,
        entry_count=len(checkpoint.places),
        run_count=len(checkpoint.runs),
        reserved=0,
        crc32c=0,
    )
    crc = crc32c(CHECKPOINT_HEADER.pack(header)[:_CHECKED_BYTES], crc32c(body))
    return CHECKPOINT_HEADER.pack(header._replace(crc32c=crc)) + body


def decode_checkpoint(data: Buffer, *, path: PathLike) -> Checkpoint:
    if len(data) < CHECKPOINT_HEADER.size:
        raise Torn(
            "the checkpoint is shorter than its header",
            path=path,
            offset=0,
            found=len(data),
        )
    header = CHECKPOINT_HEADER.unpack(data)
    if header.magic != CHECKPOINT_MAGIC:
        raise Corrupt("not a checkpoint file: its magic number is wrong", path=path, offset=0)
    body = memoryview(data)[CHECKPOINT_HEADER.size :]
    crc = crc32c(data[:_CHECKED_BYTES], crc32c(body))
    is_sound, is_ours = crc == header.crc32c, header.header_length == CHECKPOINT_HEADER.size
    if header.version > VERSION and (is_sound or not is_ours):
        # A flipped bit in the version would leave the length as ours and the checksum wrong.
        raise UnknownVersion(
            "unsupported checkpoint version", path=path, expected=VERSION, found=header.version
        )
    if not is_sound:
        raise Corrupt(
            "the checkpoint's checksum is wrong", path=path, expected=header.crc32c, found=crc
        )
    times_at = header.entry_count * INDEX_ENTRY.size
    runs_at = times_at + header.entry_count * TIME_ENTRY.size
    end = runs_at + header.run_count * PRODUCER_RUN.size
    if not is_ours or end != len(body):
        raise Corrupt(
            "the checkpoint's length does not match its header",
            path=path,
            expected=end,
            found=len(body),
        )
    return Checkpoint(
        base_offset=header.base_offset,
        created_ms=header.created_ms,
        position=header.position,
        last_position=header.last_position,
        next_offset=header.next_offset,
        timestamp_ms_max=header.timestamp_ms_max,
        indexed_end=header.indexed_end,
        places=list(INDEX_ENTRY.iter_unpack(body[:times_at])),
        times=list(TIME_ENTRY.iter_unpack(body[times_at:runs_at])),
        runs=list(PRODUCER_RUN.iter_unpack(body[runs_at:])),
    )
