"""The catalogue of a snapshot: the files of the store, and the parts in the pool that they use.

    {"format": "lakebed backup snapshot", "version": 1, "blake3": "64 hex digits"}
    {"snapshot_id": "20260102T030405678Z-00c0ffee", "created_ms": …, "part_bytes": 8388608, …}

A catalogue has two lines; the first has the hash of the second. A file is `size` bytes long. Its
first `stored_bytes` are in the pool, in parts of `part_bytes` each (the last part may be shorter);
the remaining bytes are zeros. `seal` is a hash that identifies a file that never changes again,
without reading all of it.

A catalogue is not trusted: a path that leaves the root, or occurs twice, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.base.units import GIB, KIB, MIB, VALUE_MAX
from lakebed.kernels.checksum import blake3

FORMAT = "lakebed backup snapshot"
VERSION = 1
PART_BYTES = 8 * MIB
CATALOGUE_BYTES_MAX = 4 * GIB

_PART_BYTES_MIN, _PART_BYTES_MAX = 1, GIB
_PATH_BYTES_MAX, _NAME_BYTES_MAX = 4 * KIB, 255
_MOMENT_CHARACTERS = 18  # the part of an id that is a time, to the millisecond
_IS_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch
_IS_ID = re.compile(r"[0-9]{8}T[0-9]{9}Z-[0-9a-f]{8}", re.ASCII).fullmatch


class BackedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the store as it was copied."""

    path: str  # below the root, with "/"
    size: int
    stored_bytes: int  # how many bytes are in the pool; the others, up to `size`, are zeros
    parts: tuple[str, ...]  # the BLAKE3 of each part in hex, which is its name in the pool
    seal: str = ""  # identifies a file that never changes again; empty for other files

    def part_sizes(self, part_bytes: int) -> list[int]:
        full_count, last_bytes = divmod(self.stored_bytes, part_bytes)
        return [part_bytes] * full_count + [last_bytes] * (last_bytes > 0)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One backup: its files, and facts about how it was taken."""

    snapshot_id: str
    created_ms: int  # when the backup began, since 1970
    finished_ms: int
    program: str  # the release that took the backup
    part_bytes: int
    files: tuple[BackedFile, ...]
    external: tuple[str, ...] = ()  # logs with a Tier 2 outside the root, which is not copied
    left_out: tuple[str, ...] = ()  # names in the root that do not belong to the store
    problems: tuple[str, ...] = ()  # damage in the store, and files with paths that are refused

    @property
    def size(self) -> int:
        """The stored bytes of all files together."""
        return sum(file.stored_bytes for file in self.files)

    def parts(self) -> dict[str, int]:
        """Returns the sizes in bytes of the parts that the snapshot needs, by hash."""
        sizes: dict[str, int] = {}
        for file in self.files:
            sizes.update(zip(file.parts, file.part_sizes(self.part_bytes), strict=True))
        return sizes


class _Head(msgspec.Struct):
    """The fields of a catalogue's first line that every version has."""

    format: str
    version: int
    blake3: str = ""


def is_snapshot_id(text: str) -> bool:
    return _IS_ID(text) is not None


def snapshot_id_of(moment_ms: int, token: str, *, last: str | None) -> str:
    """Returns a new snapshot id, which sorts after the id `last` even if the clock was set back."""
    moment = datetime.fromtimestamp(moment_ms // 1000, tz=UTC)
    snapshot_id = f"{moment:%Y%m%dT%H%M%S}{moment_ms % 1000:03}Z-{token}"
    if last is None or snapshot_id[:_MOMENT_CHARACTERS] > last[:_MOMENT_CHARACTERS]:
        return snapshot_id
    text = last.partition("Z")[0]
    previous = datetime.strptime(text[:-3], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return snapshot_id_of(int(previous.timestamp()) * 1000 + int(text[-3:]) + 1, token, last=None)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    body = msgspec.json.encode(snapshot)
    head = _Head(FORMAT, VERSION, blake3(body).hex())
    return msgspec.json.encode(head) + b"\n" + body + b"\n"


def decode_snapshot(data: bytes, *, path: str) -> Snapshot:
    """Decodes a catalogue.

    Raises `UnknownVersion` if it has another version, and `Corrupt` if it is damaged.
    """
    first, _, second = data.partition(b"\n")
    body = second.removesuffix(b"\n")
    try:
        head = msgspec.json.decode(first, type=_Head)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Corrupt("the file is not the catalogue of a backup", path=path) from None
    if head.format != FORMAT:
        raise Corrupt("the file is not the catalogue of a backup", path=path)
    if head.version != VERSION:
        raise UnknownVersion(
            "the backup has an unsupported version: use the version of Lakebed that took it",
            path=path,
            expected=VERSION,
            found=head.version,
        )
    if blake3(body).hex() != head.blake3:
        raise Corrupt("the checksum of the catalogue does not match", path=path)
    try:
        snapshot = msgspec.json.decode(body, type=Snapshot)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Corrupt(f"the catalogue cannot be decoded ({error})", path=path) from None
    check_snapshot(snapshot, path=path)
    return snapshot


def check_snapshot(snapshot: Snapshot, *, path: str) -> None:
    """Raises `Corrupt` unless the snapshot is valid and all its paths stay inside the root."""
    if not is_snapshot_id(snapshot.snapshot_id):
        raise Corrupt("the catalogue has an invalid snapshot id", path=path)
    if not _PART_BYTES_MIN <= snapshot.part_bytes <= _PART_BYTES_MAX:
        raise Corrupt(
            f"the catalogue has an invalid part size, {snapshot.part_bytes} bytes", path=path
        )
    for file in snapshot.files:
        if not is_safe_path(file.path):
            raise Corrupt(
                f"the catalogue has a file with an unsafe path: {file.path[:200]!r}", path=path
            )
        is_sized = 0 <= file.stored_bytes <= file.size <= VALUE_MAX
        part_count = -(-file.stored_bytes // snapshot.part_bytes)
        if not is_sized or len(file.parts) != part_count or not all(map(_IS_HASH, file.parts)):
            raise Corrupt(
                f"the catalogue has invalid sizes or parts for the file {file.path}", path=path
            )
    _check_names(snapshot.files, path=path)


def is_safe_path(path: str) -> bool:
    """Whether a path is made of plain names joined by "/", and so cannot leave the root."""
    names = path.split("/")
    return len(path.encode("utf-8", "surrogatepass")) <= _PATH_BYTES_MAX and all(
        name.isprintable()
        and name not in ("", ".", "..")
        and "\\" not in name
        and len(name.encode("utf-8", "surrogatepass")) <= _NAME_BYTES_MAX
        for name in names
    )


def _check_names(files: Iterable[BackedFile], *, path: str) -> None:
    """Raises `Corrupt` if a path occurs twice, or is a file and also a folder of another file."""
    names: set[str] = set()
    folders: set[str] = set()
    for file in files:
        if file.path in names:
            raise Corrupt(f"the catalogue has the file {file.path} twice", path=path)
        names.add(file.path)
        parent = file.path.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    both = sorted(names & folders)
    if both:
        raise Corrupt(f"the catalogue has {both[0]} as a file and as a folder", path=path)
