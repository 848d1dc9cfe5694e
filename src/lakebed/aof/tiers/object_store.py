"""What the tiers ask of an object store, and what every one of them promises.

- An object appears whole or not at all. `put` replaces one of the same key; `delete` of one that is
  not there is fine. So both may be repeated after a failure, when it is not known whether they
  were carried out.
- What was acknowledged is durable.
- A listing may be behind: leave out what was put a moment ago, still show what was deleted. `head`
  and `get_range` are not.
- Every failure is a `Tier2Error`, but for an error of the source of a `put`, which comes through
  as it is. A `put` that failed is put again; that the object is there proves nothing by then.

Keys and metadata are restricted to what means the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from lakebed.aof.tiers.errors import Transient
from lakebed.aof.tiers.ranges import RangeSource
from lakebed.base.errors import BadName, InputError, TooLarge
from lakebed.base.files import TEMPORARY_SUFFIX
from lakebed.base.retry import RetryPolicy
from lakebed.base.units import shown

KEY_BYTES_MAX = 800
METADATA_BYTES_MAX = 2048  # as S3 counts them: names and values
RETRY = RetryPolicy(attempts=4, delay_ms_first=100.0, delay_ms_max=5_000.0)
"""The default of Tier 2: three retries. The stores themselves repeat nothing."""
ANSWERS_MAX = 3
"""How often bytes are asked for that arrive cut short, or damaged."""

_KEY_PART = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9._=-]{0,199}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)
_TAKEN = re.compile(r"(content|cache|storage|amz)-.*", re.ASCII)


class PutResult(NamedTuple):
    """An object was stored."""

    etag: str  # whatever the store says: it changes when the object does


class ObjectInfo(NamedTuple):
    """An object that is there."""

    key: str
    size: int
    etag: str
    metadata: Mapping[str, str] | None  # None in a listing


class ObjectStore(Protocol):
    """One place to keep objects. Thread-safe; the calls wait for the store."""

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:
        """Store all of `source`; it is read once, in order, and never held as a whole."""

    def get_range(self, key: str, *, offset: int, length: int) -> bytes:
        """The object's bytes at `offset`: fewer than asked for only at its end."""

    def head(self, key: str) -> ObjectInfo:
        """`Missing` if there is no such object."""

    def delete(self, key: str) -> None: ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Everything below `prefix`, which is empty or ends in "/"; in no particular order."""


class ObjectSource:
    """An object of Tier 2, of the size that `head` or a listing told."""

    def __init__(self, store: ObjectStore, key: str, *, size: int) -> None:
        self._store = store
        self.name = key
        self.size = size

    def read_range(self, offset: int, length: int) -> bytes:
        """An answer that is cut short is asked for again: only here it is known to be one."""
        found = 0
        for _ in range(ANSWERS_MAX):
            data = self._store.get_range(self.name, offset=offset, length=length)
            if len(data) == length:
                return data
            found = len(data)
        raise Transient(f"{self.name}: the answer has {found} of {length} bytes")

    def close(self) -> None:
        """Nothing to let go of."""


def check_key(key: str) -> None:
    """Parts of letters, digits and `._=-`, joined by "/": a path that cannot leave its folder."""
    parts = key.split("/")
    if len(key) > KEY_BYTES_MAX or not all(map(_KEY_PART.fullmatch, parts)):
        raise BadName(f"{shown(key)} cannot be the key of an object")
    if any(part.endswith(TEMPORARY_SUFFIX) for part in parts):
        raise BadName(f"{shown(key)}: {TEMPORARY_SUFFIX} is for unfinished files")


def is_key(key: str) -> bool:
    try:
        check_key(key)
    except BadName:
        return False
    return True


def check_prefix(prefix: str) -> None:
    if prefix:
        if not prefix.endswith("/"):
            raise BadName(f"{shown(prefix)}: a prefix ends in '/'")
        check_key(prefix[:-1])


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Lower-case names with hyphens, printable ASCII values, 2 KiB in all."""
    for name, value in metadata.items():
        if not _NAME.fullmatch(name) or _TAKEN.fullmatch(name):
            raise BadName(f"{shown(name)} cannot be a name in an object's metadata")
        if not _VALUE.fullmatch(value):
            raise InputError(f"{name}: {shown(value)} cannot be a value in an object's metadata")
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > METADATA_BYTES_MAX:
        raise TooLarge("an object's metadata", size=size, limit=METADATA_BYTES_MAX)
