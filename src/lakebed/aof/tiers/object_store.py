"""The interface of an object store for the tiers, and the guarantees that every store gives.

- An object appears whole or not at all. `put` replaces an object with the same key; `delete` of a
  missing object succeeds. So both may be repeated after a failure whose outcome is unknown.
- What was acknowledged is durable.
- A listing may be outdated: it may omit new objects and still show deleted ones. `head` and
  `get_range` are always current.
- Every failure is a `Tier2Error`, except an error of the source of a `put`, which is raised
  unchanged. A failed `put` must be repeated even if the object exists afterwards.

Keys and metadata are restricted to what works in every store.
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
METADATA_BYTES_MAX = 2048  # counted as S3 does: names and values
RETRY = RetryPolicy(attempts=4, delay_ms_first=100.0, delay_ms_max=5_000.0)
"""The default retry policy of Tier 2: three retries. The stores themselves retry nothing."""
ANSWERS_MAX = 3
"""How often bytes are requested that arrive truncated or damaged."""

_KEY_PART = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9._=-]{0,199}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)
_TAKEN = re.compile(r"(content|cache|storage|amz)-.*", re.ASCII)


class PutResult(NamedTuple):
    """The result of storing an object."""

    etag: str  # from the store; it changes when the object does


class ObjectInfo(NamedTuple):
    """An object in the store."""

    key: str
    size: int
    etag: str
    metadata: Mapping[str, str] | None  # None in a listing


class ObjectStore(Protocol):
    """A place that keeps objects. Thread-safe; calls block until the store responds."""

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:
        """Stores all of `source`, which is read once, in order, and never held whole in memory."""

    def get_range(self, key: str, *, offset: int, length: int) -> bytes:
        """Returns the object's bytes at `offset`; fewer than `length` only at its end."""

    def head(self, key: str) -> ObjectInfo:
        """Raises `Missing` if there is no such object."""

    def delete(self, key: str) -> None: ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yields all objects below `prefix`, which is empty or ends in "/", in no particular
        order."""


class ObjectSource:
    """An object of Tier 2, with the size that `head` or a listing reported."""

    def __init__(self, store: ObjectStore, key: str, *, size: int) -> None:
        self._store = store
        self.name = key
        self.size = size

    def read_range(self, offset: int, length: int) -> bytes:
        """Requests a truncated response again; only this method knows the expected length."""
        received_bytes = 0
        for _ in range(ANSWERS_MAX):
            data = self._store.get_range(self.name, offset=offset, length=length)
            if len(data) == length:
                return data
            received_bytes = len(data)
        raise Transient(f"{self.name}: the store returned {received_bytes} of {length} bytes")

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


def check_key(key: str) -> None:
    """Raises `BadName` unless the key is a path that cannot leave its folder.

    Its parts are letters, digits and `._=-`, joined by "/".
    """
    parts = key.split("/")
    if len(key) > KEY_BYTES_MAX or not all(map(_KEY_PART.fullmatch, parts)):
        raise BadName(
            f"{shown(key)} is not a valid object key: use parts of letters, digits and '._=-', "
            f"joined by '/', at most {KEY_BYTES_MAX} bytes"
        )
    if any(part.endswith(TEMPORARY_SUFFIX) for part in parts):
        raise BadName(
            f"{shown(key)}: the suffix {TEMPORARY_SUFFIX} is reserved for unfinished files"
        )


def is_key(key: str) -> bool:
    try:
        check_key(key)
    except BadName:
        return False
    return True


def check_prefix(prefix: str) -> None:
    if prefix:
        if not prefix.endswith("/"):
            raise BadName(f"{shown(prefix)}: a prefix must end in '/'")
        check_key(prefix[:-1])


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raises unless names are lower-case with hyphens, values printable ASCII, and all at most 2
    KiB."""
    for name, value in metadata.items():
        if not _NAME.fullmatch(name) or _TAKEN.fullmatch(name):
            raise BadName(f"{shown(name)} is not a valid name for an object's metadata")
        if not _VALUE.fullmatch(value):
            raise InputError(
                f"{name}: {shown(value)} is not a valid value for an object's metadata"
            )
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > METADATA_BYTES_MAX:
        raise TooLarge("the size of an object's metadata", size=size, limit=METADATA_BYTES_MAX)
