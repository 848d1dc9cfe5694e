"""The interface of an object store for the tiers, and the guarantees that every store gives.

- An object appears whole or not at all. `put` replaces an object with the same key; `delete` of a
  missing object succeeds. So both may be repeated after a failure whose outcome is unknown.
- When `put` or `delete` returns, its effect is durable.
- A listing may be outdated: it may omit new objects and still show deleted ones. `head` and
  `get_range` are always current.
- Every failure of a store is a `Tier2Error`, except that a damaged object raises a `DataError`, and
  a lack of file descriptors `TooManyFiles`. An error of the source of a `put` is raised unchanged.
  A failed `put` must be repeated even if the object exists afterwards.

Keys and metadata may have only characters that every store supports.
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
"""The maximum number of requests for the same bytes, if they arrive truncated or damaged."""

_KEY_PART = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9._=-]{0,199}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)
_TAKEN = re.compile(r"(content|cache|storage|amz)-.*", re.ASCII)


class PutResult(NamedTuple):
    """The result of `put`."""

    etag: str  # from the store; it changes when the object does


class ObjectInfo(NamedTuple):
    """The description of an object in a store, as `head` and `list` return it."""

    key: str
    size: int
    etag: str
    metadata: Mapping[str, str] | None  # None in a listing


class ObjectStore(Protocol):
    """The interface of an object store. Thread-safe; calls block until the store responds."""

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:
        """Stores the bytes of `source` as an object, and replaces any object with the same key.

        Large sources are read piece by piece, so they are never wholly in memory.
        """

    def get_range(self, key: str, *, offset: int, length: int) -> bytes:
        """Returns `length` bytes of the object from `offset` on, or fewer at the object's end."""

    def head(self, key: str) -> ObjectInfo:
        """Returns the description of an object; raises `Missing` if there is no such object."""

    def delete(self, key: str) -> None: ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yields the objects whose keys begin with `prefix`, in no particular order.

        `prefix` must be empty or end in "/".
        """


class ObjectSource:
    """Reads an object of Tier 2; implements `ranges.RangeSource`.

    `size` must be the object's size, as `head` or a listing reported it.
    """

    def __init__(self, store: ObjectStore, key: str, *, size: int) -> None:
        self._store = store
        self.name = key
        self.size = size

    def read_range(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset` on; repeats the request if fewer bytes arrive.

        Raises `Transient` if the bytes are still too few after `ANSWERS_MAX` requests.
        """
        received_bytes = 0
        for _ in range(ANSWERS_MAX):
            data = self._store.get_range(self.name, offset=offset, length=length)
            if len(data) == length:
                return data
            received_bytes = len(data)
        raise Transient(f"{self.name}: the store returned only {received_bytes} of {length} bytes")

    def close(self) -> None:
        """Does nothing, because a store needs no open file or connection per object."""


def check_key(key: str) -> None:
    """Raises `BadName` if the key cannot be used in every store.

    A key is a relative path without `..`: parts of letters, digits and `._=-`, joined by "/". A
    part has at most 200 characters, does not begin with "." or "-", and does not end in
    `TEMPORARY_SUFFIX`. A key has at most `KEY_BYTES_MAX` bytes.
    """
    parts = key.split("/")
    if len(key) > KEY_BYTES_MAX or not all(map(_KEY_PART.fullmatch, parts)):
        raise BadName(
            f"{shown(key)} is not a valid object key: use parts of at most 200 letters, digits and "
            "'._=-' that do not begin with '.' or '-', joined by '/', together at most "
            f"{KEY_BYTES_MAX} bytes"
        )
    if any(part.endswith(TEMPORARY_SUFFIX) for part in parts):
        raise BadName(
            f"{shown(key)} is not a valid object key: the suffix {TEMPORARY_SUFFIX} is reserved "
            "for unfinished files"
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
            raise BadName(f"{shown(prefix)} is not a valid prefix of keys: it must end in '/'")
        check_key(prefix[:-1])


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raises an `InputError` if the metadata cannot be used in every store.

    A name has at most 64 lower-case letters, digits and hyphens, begins with a letter, and does not
    begin with a prefix that S3 reserves, such as `content-`. A value is printable ASCII, is not
    empty, and has no spaces at the ends. Names and values together have at most 2 KiB.
    """
    for name, value in metadata.items():
        if not _NAME.fullmatch(name) or _TAKEN.fullmatch(name):
            raise BadName(
                f"{shown(name)} is not a valid name in an object's metadata: use at most 64 "
                "lower-case letters, digits and hyphens, beginning with a letter, and no prefix "
                "that S3 reserves, such as content-"
            )
        if not _VALUE.fullmatch(value):
            raise InputError(
                f"{shown(value)} is not a valid value of {name} in an object's metadata: use one "
                "or more printable ASCII characters, without spaces at the ends"
            )
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > METADATA_BYTES_MAX:
        raise TooLarge(
            "the size in bytes of an object's metadata", size=size, limit=METADATA_BYTES_MAX
        )
