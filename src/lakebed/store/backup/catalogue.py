"""A snapshot's catalogue: every file of the store, and the parts of the pool that it is made of.

    {"format": "lakebed backup snapshot", "version": 1, "blake3": "64 hex digits"}
    {"snapshot_id": "20260102T030405678Z-00c0ffee", "created_ms": …, "part_bytes": 8388608, …}

Two lines: the second is what the first has the hash of. A file is `size` bytes long; the first
`stored_bytes` of it are in the pool, in parts of `part_bytes` each but for the last, and the rest
is zeros. `seal` is what a file that never changes again is known by, without reading all of it.

Paths come from whoever wrote the catalogue: none is taken that leaves the root, or is named twice.
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
_MOMENT_CHARACTERS = 18  # of an id: to the millisecond
_IS_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch
_IS_ID = re.compile(r"[0-9]{8}T[0-9]{9}Z-[0-9a-f]{8}", re.ASCII).fullmatch


class BackedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the store as it was copied."""

    path: str  # below the root, with "/"
    size: int
    stored_bytes: int
    parts: tuple[str, ...]  # BLAKE3 of each, in hex: their names in the pool
    seal: str = ""  # of a file that does not change any more

    def part_sizes(self, part_bytes: int) -> list[int]:
        full_count, rest = divmod(self.stored_bytes, part_bytes)
        return [part_bytes] * full_count + [rest] * (rest > 0)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One backup."""

    snapshot_id: str
    created_ms: int  # when it began, since 1970
    finished_ms: int
    program: str  # the version that took it
    part_bytes: int
    files: tuple[BackedFile, ...]
    external: tuple[str, ...] = ()  # what is needed, and kept elsewhere
    left_out: tuple[str, ...] = ()  # names in the root that are not the store's
    problems: tuple[str, ...] = ()  # damage of the store itself

    @property
    def size(self) -> int:
        """Of all files together, as far as they are stored."""
        return sum(file.stored_bytes for file in self.files)

    def parts(self) -> dict[str, int]:
        """The parts it needs, and their sizes."""
        found: dict[str, int] = {}
        for file in self.files:
            found.update(zip(file.parts, file.part_sizes(self.part_bytes), strict=True))
        return found


class _Head(msgspec.Struct):
    """What every version has; the hash may be another's affair."""

    format: str
    version: int
    blake3: str = ""


def is_snapshot_id(text: str) -> bool:
    return _IS_ID(text) is not None


def snapshot_id_of(moment_ms: int, token: str, *, last: str | None) -> str:
    """Sorts behind the last one, also if the clock was set back since."""
    moment = datetime.fromtimestamp(moment_ms // 1000, tz=UTC)
    found = f"{moment:%Y%m%dT%H%M%S}{moment_ms % 1000:03}Z-{token}"
    if last is None or found[:_MOMENT_CHARACTERS] > last[:_MOMENT_CHARACTERS]:
        return found
    text = last.partition("Z")[0]
    previous = datetime.strptime(text[:-3], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return snapshot_id_of(int(previous.timestamp()) * 1000 + int(text[-3:]) + 1, token, last=None)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    body = msgspec.json.encode(snapshot)
    head = _Head(FORMAT, VERSION, blake3(body).hex())
    return msgspec.json.encode(head) + b"\n" + body + b"\n"


def decode_snapshot(data: bytes, *, path: str) -> Snapshot:
    """`UnknownVersion` if it is newer, `Corrupt` for everything else that is wrong with it."""
    first, _, rest = data.partition(b"\n")
    body = rest.removesuffix(b"\n")
    try:
        head = msgspec.json.decode(first, type=_Head)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Corrupt("not the catalogue of a backup", path=path) from None
    if head.format != FORMAT:
        raise Corrupt("not the catalogue of a backup", path=path)
    if head.version != VERSION:
        raise UnknownVersion(
            "a backup of a version that is not read", path=path, expected=VERSION,
            found=head.version,
        )  # fmt: skip
    if blake3(body).hex() != head.blake3:
        raise Corrupt("a catalogue whose checksum does not match", path=path)
    try:
        snapshot = msgspec.json.decode(body, type=Snapshot)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Corrupt(f"a catalogue that is not understood ({error})", path=path) from None
    check_snapshot(snapshot, path=path)
    return snapshot


def check_snapshot(snapshot: Snapshot, *, path: str) -> None:
    """`Corrupt` unless it can be carried out as it stands, inside a root."""
    if not is_snapshot_id(snapshot.snapshot_id):
        raise Corrupt("a snapshot without a proper id", path=path)
    if not _PART_BYTES_MIN <= snapshot.part_bytes <= _PART_BYTES_MAX:
        raise Corrupt(f"parts of {snapshot.part_bytes} bytes", path=path)
    for file in snapshot.files:
        if not is_safe_path(file.path):
            raise Corrupt(f"a file whose path cannot be used: {file.path[:200]!r}", path=path)
        is_sized = 0 <= file.stored_bytes <= file.size <= VALUE_MAX
        part_count = -(-file.stored_bytes // snapshot.part_bytes)
        if not is_sized or len(file.parts) != part_count or not all(map(_IS_HASH, file.parts)):
            raise Corrupt(f"the parts of {file.path} are not what they must be", path=path)
    _check_names(snapshot.files, path=path)


def is_safe_path(path: str) -> bool:
    """Whether it stays below the root, whatever is there: plain names, joined by "/"."""
    names = path.split("/")
    return len(path.encode("utf-8", "surrogatepass")) <= _PATH_BYTES_MAX and all(
        name.isprintable()
        and name not in ("", ".", "..")
        and "\\" not in name
        and len(name.encode("utf-8", "surrogatepass")) <= _NAME_BYTES_MAX
        for name in names
    )


def _check_names(files: Iterable[BackedFile], *, path: str) -> None:
    """No file is named twice, and none where another needs a folder."""
    names: set[str] = set()
    folders: set[str] = set()
    for file in files:
        if file.path in names:
            raise Corrupt(f"{file.path} is named twice", path=path)
        names.add(file.path)
        parent = file.path.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    both = sorted(names & folders)
    if both:
        raise Corrupt(f"{both[0]} is a file and a folder", path=path)
