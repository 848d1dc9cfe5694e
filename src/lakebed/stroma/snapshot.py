"""Encodes and decodes a group's snapshot: its settled, leased, waiting and returned messages.

Long parts are stored as columns (see `format`). The messages of each part are in ascending order,
and no message is in two parts. A message that is in no part is settled if it is before
`acked_until`; otherwise it counts as never leased.

Decoding distinguishes three errors: `Torn` if the file is shorter than its counts require or was
never written, `UnknownVersion`, and `Corrupt` for everything else, including the snapshot of
another group. Memory is allocated only after the file has proved long enough.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import le, lt

from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import PathLike
from lakebed.base.layout import Buffer
from lakebed.kernels import crc32c
from lakebed.stroma.format import (
    CHECKSUM,
    DEADLINE_HINT,
    FLAG_ACKED_RANGES,
    FLAG_MESSAGE_STATES,
    FLAGS_KNOWN,
    HEADER_BYTES_MAX,
    IN_FLIGHT,
    MESSAGE_STATE,
    RANGE,
    SECTION,
    SNAPSHOT_HEADER,
    SNAPSHOT_MAGIC,
    SNAPSHOT_START,
    SNAPSHOT_VERSION,
    U32_MAX,
    Checksum,
    DeadlineHint,
    Section,
    SnapshotHeader,
    SnapshotStart,
    columns,
    interleaved,
)
from lakebed.stroma.paths import GroupName


def _words() -> array[int]:
    return array("Q")


@dataclass
class Snapshot:
    """The contents of a snapshot.

    Each word of `leased_epochs` holds an epoch in its upper half and a delivery count in its lower
    half. The columns `known_…` describe the messages that are delayed, scheduled or were given
    back. Each word of `known_counts` holds a delivery count in its upper half.
    """

    generation: int = 0
    incarnation: int = 0
    created_ts_ms: int = 0
    acked_until: int = 0
    last_epoch: int = 0
    acked_starts: array[int] = field(default_factory=_words)
    acked_ends: array[int] = field(default_factory=_words)
    leased_offsets: array[int] = field(default_factory=_words)
    leased_deadlines: array[int] = field(default_factory=_words)
    leased_epochs: array[int] = field(default_factory=_words)
    known_offsets: array[int] = field(default_factory=_words)
    known_not_before: array[int] = field(default_factory=_words)
    known_counts: array[int] = field(default_factory=_words)
    flags: int = FLAGS_KNOWN


def encode_snapshot(
    snapshot: Snapshot, name: GroupName, *, version: int = SNAPSHOT_VERSION
) -> bytes:
    """Returns the contents of the snapshot file."""
    counts = [len(part) for part in (snapshot.acked_starts, snapshot.leased_offsets,
                                     snapshot.known_offsets)]  # fmt: skip
    assert max(counts) <= U32_MAX, "more entries than the format can count"
    start = SnapshotStart(snapshot.acked_until, counts[1], 0)
    hint = DeadlineHint(min(snapshot.leased_deadlines, default=0))
    body = b"".join(
        [
            SNAPSHOT_START.pack(start),
            interleaved(
                [snapshot.leased_offsets, snapshot.leased_deadlines, snapshot.leased_epochs]
            ),
            DEADLINE_HINT.pack(hint),
            SECTION.pack(Section(counts[0], 0)),
            interleaved([snapshot.acked_starts, snapshot.acked_ends]),
            SECTION.pack(Section(counts[2], snapshot.last_epoch)),
            interleaved([snapshot.known_offsets, snapshot.known_not_before, snapshot.known_counts]),
        ]
    )
    header = SnapshotHeader(
        magic=SNAPSHOT_MAGIC,
        version=version,
        flags=FLAGS_KNOWN,
        header_len=SNAPSHOT_HEADER.size,
        created_ts_ms=snapshot.created_ts_ms,
        tp_hash=name.tp_hash(),
        group_hash=name.group_hash(),
        generation=snapshot.generation,
        incarnation=snapshot.incarnation,
        reserved=bytes(16),
        header_crc32c=0,
    )
    checksum = crc32c(SNAPSHOT_HEADER.pack(header)[: SNAPSHOT_HEADER.offset_of("header_crc32c")])
    packed = SNAPSHOT_HEADER.pack(header._replace(header_crc32c=checksum))
    return packed + body + CHECKSUM.pack(Checksum(crc32c(body)))


def decode_snapshot(
    data: Buffer, name: GroupName | None = None, *, path: PathLike | None = None
) -> Snapshot:
    """Decodes a snapshot; raises `Torn`, `Corrupt` or `UnknownVersion` if it is not valid.

    With `name`, a snapshot of another group is `Corrupt` too.
    """
    try:
        view = memoryview(data)
        header = _verified_header(view)
        if name is not None:
            _check_name(header, name)
        snapshot = _Body(header, view[header.header_len :]).read()
        _check_order(snapshot)
        return snapshot
    except (Torn, Corrupt, UnknownVersion) as error:
        raise type(error)(
            error.problem, path=path, offset=error.offset, expected=error.expected,
            found=error.found
        ) from None  # fmt: skip


class _Body:
    """Reads the parts of a snapshot's payload one after the other.

    Raises `Torn` if a part is incomplete.
    """

    def __init__(self, header: SnapshotHeader, body: memoryview) -> None:
        self._header = header
        self._body = body
        self._at = 0

    def read(self) -> Snapshot:
        header = self._header
        start = SNAPSHOT_START.unpack(self._take(SNAPSHOT_START.size))
        leased = columns(self._take(start.in_flight_count * IN_FLIGHT.size), count=3)
        self._take(DEADLINE_HINT.size)
        acked, known, last_epoch = [_words()] * 2, [_words()] * 3, 0
        if header.flags & FLAG_ACKED_RANGES:
            section = SECTION.unpack(self._take(SECTION.size))
            acked = columns(self._take(section.entry_count * RANGE.size), count=2)
        if header.flags & FLAG_MESSAGE_STATES:
            section = SECTION.unpack(self._take(SECTION.size))
            last_epoch = section.last_epoch
            known = columns(self._take(section.entry_count * MESSAGE_STATE.size), count=3)
        checksum = CHECKSUM.unpack(self._take(CHECKSUM.size)).crc32c
        if self._at != len(self._body):
            raise Corrupt("unexpected bytes after the snapshot's end",
                          offset=SNAPSHOT_HEADER.size + self._at)  # fmt: skip
        if crc32c(self._body[: -CHECKSUM.size]) != checksum:
            raise Corrupt("the checksum of the snapshot's payload is wrong",
                          offset=SNAPSHOT_HEADER.size)  # fmt: skip
        return Snapshot(
            generation=header.generation,
            incarnation=header.incarnation,
            created_ts_ms=header.created_ts_ms,
            acked_until=start.acked_until,
            last_epoch=last_epoch,
            acked_starts=acked[0],
            acked_ends=acked[1],
            leased_offsets=leased[0],
            leased_deadlines=leased[1],
            leased_epochs=leased[2],
            known_offsets=known[0],
            known_not_before=known[1],
            known_counts=known[2],
            flags=header.flags,
        )

    def _take(self, size: int) -> memoryview:
        part = self._body[self._at : self._at + size]
        if len(part) < size:
            raise Torn("the snapshot is cut short", offset=SNAPSHOT_HEADER.size + self._at,
                       expected=f"{size} bytes", found=len(part))  # fmt: skip
        self._at += size
        return part


def _verified_header(view: memoryview) -> SnapshotHeader:
    header = SNAPSHOT_HEADER.unpack(view)
    if not any(view[: SNAPSHOT_HEADER.size]):
        raise Torn("the snapshot was never written", offset=0)
    if header.magic != SNAPSHOT_MAGIC:
        raise Corrupt("not a snapshot: its magic number is wrong", offset=0,
                      expected=SNAPSHOT_MAGIC, found=header.magic)  # fmt: skip
    checksum = crc32c(view[: SNAPSHOT_HEADER.offset_of("header_crc32c")])
    if SNAPSHOT_HEADER.size < header.header_len <= HEADER_BYTES_MAX:  # it has unknown fields
        checksum = crc32c(view[SNAPSHOT_HEADER.size : header.header_len], checksum)
    if checksum != header.header_crc32c:
        raise Corrupt("the checksum of the snapshot's header is wrong", offset=0,
                      expected=hex(header.header_crc32c), found=hex(checksum))  # fmt: skip
    if header.version != SNAPSHOT_VERSION:
        problem = "the snapshot's version is not supported"
        raise UnknownVersion(problem, expected=SNAPSHOT_VERSION, found=header.version)
    if not SNAPSHOT_HEADER.size <= header.header_len <= min(HEADER_BYTES_MAX, len(view)):
        raise Corrupt("the snapshot's header has a wrong length", expected=SNAPSHOT_HEADER.size,
                      found=header.header_len)  # fmt: skip
    return header


def _check_name(header: SnapshotHeader, name: GroupName) -> None:
    actual, expected = (header.tp_hash, header.group_hash), (name.tp_hash(), name.group_hash())
    if actual != expected:
        raise Corrupt("the snapshot belongs to another group", expected=expected, found=actual)


def _check_order(snapshot: Snapshot) -> None:
    """Raises `Corrupt` if messages are out of order or before `acked_until`.

    Only a faulty writer can cause this.
    """
    starts, ends = snapshot.acked_starts, snapshot.acked_ends
    is_sound = all(map(lt, starts, ends)) and all(map(le, ends, starts[1:]))
    for offsets in (snapshot.leased_offsets, snapshot.known_offsets):
        is_sound = is_sound and all(map(lt, offsets, offsets[1:]))
    parts: list[Sequence[int]] = [starts, snapshot.leased_offsets, snapshot.known_offsets]
    lowest = min((part[0] for part in parts if part), default=snapshot.acked_until)
    if not is_sound or lowest < snapshot.acked_until:
        raise Corrupt(
            "the snapshot's messages are out of order or before its acked_until",
            offset=SNAPSHOT_HEADER.size,
        )
