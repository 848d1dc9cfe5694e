"""`commits.json`: the last version of each application that was committed to a partition.

    {"format": "lakebed commits", "version": 1, "crc32c": "8 hex digits", "applications": [
     {"application": "query 7", "version": 41, "base_offset": 1200, "message_count": 3,
      "committed_ms": 1700000000000}]}

The one that committed last stands last. The checksum covers the rest as compact JSON: see
`_checksum`. Replaced as a whole. One that is damaged is an error, for without it a version that
was committed before would be taken for a new one.

What may be lost: of more than `APPLICATIONS_MAX` the one that is longest without a commit.
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
    """What became of a version. Its messages follow one another, unless it was interrupted: by a
    crash or a full disk, and others wrote before it was completed."""

    version: int
    base_offset: int | None  # None, if it was interrupted so often that nobody knows any more
    message_count: int
    committed_ms: int  # since 1970


Ledger = Mapping[str, Committed]
"""By application, the one that committed last at the end."""


def with_commit(
    ledger: Ledger, application: str, committed: Committed, *, count_max: int = APPLICATIONS_MAX
) -> Ledger:
    """The ledger behind one more commit."""
    others = {name: one for name, one in ledger.items() if name != application}
    surplus = len(others) + 1 - count_max
    for name in list(others)[: max(surplus, 0)]:
        del others[name]
    return {**others, application: committed}


def load_ledger(disk: Disk, path: PathLike) -> Ledger:
    """Empty if there is none."""
    try:
        data = read_file(disk, path, size_max=_FILE_BYTES_MAX)
    except NotFound:
        return {}
    return decode_ledger(data, path=path)


def save_ledger(disk: Disk, path: PathLike, ledger: Ledger) -> None:
    """Durable when it returns."""
    replace_atomically(disk, path, encode_ledger(ledger))


def encode_ledger(ledger: Ledger) -> bytes:
    rows = [{"application": name, **one._asdict()} for name, one in ledger.items()]
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
        version, said, rows = document["version"], document["crc32c"], document["applications"]
        if type(version) is int and version > VERSION and said != _checksum(VERSION, rows):
            raise UnknownVersion("commits", path=path, expected=VERSION, found=version)
        if version != VERSION:
            raise ValueError
        found = _checksum(version, rows)
        if said != found:
            raise Corrupt("the checksum of the commits", path=path, expected=said, found=found)
        return dict(map(_entry, rows))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Corrupt("not what says which versions were committed", path=path) from None


def _checksum(version: int, rows: object) -> str:
    """Over `[format, version, applications]`, with sorted keys, without spaces, in ASCII."""
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
