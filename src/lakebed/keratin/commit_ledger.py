"""The file `commits.json`: the last version that each application committed to a partition.

    {"format": "lakebed commits", "version": 1, "crc32c": "8 hex digits", "applications": [
     {"application": "query 7", "version": 41, "base_offset": 1200, "message_count": 3,
      "committed_ms": 1700000000000}]}

The application that committed most recently is last. The checksum covers the other fields: see
`_checksum`. The file is always replaced as a whole. A damaged file is an error, because without it
a version that was committed before would be committed again.

What may be lost: with more than `APPLICATIONS_MAX` applications, the one that has not committed for
the longest time is forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from lakebed.base.errors import Corrupt, NotFound, UnknownVersion
from lakebed.base.files import Disk, PathLike, read_file, replace_atomically
from lakebed.base.units import MIB
from lakebed.keratin.format import OFFSET_MAX
from lakebed.kernels import crc32c

FORMAT = "lakebed commits"
VERSION = 1
APPLICATIONS_MAX = 10_000
_FILE_BYTES_MAX = 64 * MIB


class Committed(NamedTuple):
    """The outcome of a commit: its version, and where its messages are.

    The messages have consecutive offsets, unless the commit was interrupted, for example by a crash
    or a full disk, and other messages were appended before it was completed.
    """

    version: int
    base_offset: int | None  # None: unknown, after many interruptions or for an earlier version
    message_count: int
    committed_ms: int  # since 1970


Ledger = Mapping[str, Committed]
"""The last commit by application. The application that committed most recently is last."""


def with_commit(
    ledger: Ledger, application: str, committed: Committed, *, count_max: int = APPLICATIONS_MAX
) -> Ledger:
    """Returns the ledger with `committed` as the last commit of the application.

    Leaves out the applications that committed least recently, if there are more than `count_max`.
    """
    others = {name: entry for name, entry in ledger.items() if name != application}
    surplus = len(others) + 1 - count_max
    for name in list(others)[: max(surplus, 0)]:
        del others[name]
    return {**others, application: committed}


def load_ledger(disk: Disk, path: PathLike) -> Ledger:
    """Reads and decodes the ledger; returns an empty ledger if the file does not exist.

    Raises `Corrupt` if the file is damaged, and `UnknownVersion` if a newer release wrote it.
    """
    try:
        data = read_file(disk, path, size_max=_FILE_BYTES_MAX)
    except NotFound:
        return {}
    return decode_ledger(data, path=path)


def save_ledger(disk: Disk, path: PathLike, ledger: Ledger) -> None:
    """Replaces the ledger file, durably."""
    replace_atomically(disk, path, encode_ledger(ledger))


def encode_ledger(ledger: Ledger) -> bytes:
    rows = [{"application": name, **entry._asdict()} for name, entry in ledger.items()]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "crc32c": _checksum(VERSION, rows),
        "applications": rows,
    }
    return json.dumps(document).encode("ascii") + b"\n"


def decode_ledger(data: bytes, *, path: PathLike) -> Ledger:
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise ValueError
        version, stored, rows = document["version"], document["crc32c"], document["applications"]
        if type(version) is int and version > VERSION and stored != _checksum(VERSION, rows):
            raise UnknownVersion(
                "unsupported version of the commit ledger",
                path=path,
                expected=VERSION,
                found=version,
            )
        if version != VERSION:
            raise ValueError
        computed = _checksum(version, rows)
        if stored != computed:
            raise Corrupt(
                "the checksum of the commit ledger is wrong",
                path=path,
                expected=stored,
                found=computed,
            )
        return dict(map(_entry, rows))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Corrupt("not a valid commit ledger", path=path) from None


def _checksum(version: int, rows: object) -> str:
    """Returns the crc32c of `[format, version, applications]` as 8 hex digits.

    It is computed over ASCII JSON with sorted keys and without spaces.
    """
    text = json.dumps([FORMAT, version, rows], separators=(",", ":"), sort_keys=True)
    return f"{crc32c(text.encode('ascii')):08x}"


def _entry(row: dict[str, object]) -> tuple[str, Committed]:
    name, base_offset = row["application"], row["base_offset"]
    if not isinstance(name, str):
        raise TypeError
    version, count, committed_ms = (
        _number(row[field]) for field in ("version", "message_count", "committed_ms")
    )
    base = None if base_offset is None else _number(base_offset)
    return name, Committed(version, base, count, committed_ms)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= OFFSET_MAX:
        raise ValueError
    return value
