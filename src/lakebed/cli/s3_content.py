"""Parses the content type, metadata and byte range of an object from the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from mimetypes import MimeTypes
from typing import TYPE_CHECKING

from lakebed.base.errors import InputError
from lakebed.base.units import shown

if TYPE_CHECKING:
    from lakebed.seglake.model import Content
    from lakebed.seglake.ranges import ByteRange

METADATA_BYTES_MAX = 2048  # names and values together, as in S3

_COMPRESSED = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
    "br": "application/octet-stream",
    "compress": "application/x-compress",
}
_RANGE = re.compile(r"([0-9]{0,19})-([0-9]{0,19})", re.ASCII)
_is_name = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII).fullmatch


def content_of(
    names: Iterable[str], *, content_type: str | None, metadata: Iterable[str]
) -> Content:
    """Returns the content type and the metadata of an object.

    If `content_type` is None, it is guessed from the first of `names` that has a known suffix; if
    there is none, the object gets no content type.
    """
    from lakebed.seglake.model import Content

    if content_type is None:
        content_type = next(filter(None, map(guess_type, names)), None)
    else:
        _check_value("--content-type", content_type)
    return Content(content_type=content_type, metadata=parse_metadata(metadata))


def guess_type(name: str) -> str | None:
    """Guesses the content type from the last suffix of a name; None if the suffix is unknown.

    The mime.types files of this machine are ignored, so that the result is the same everywhere.
    """
    ending = "x" + name[name.rfind(".") :] if "." in name else ""
    kind, encoding = MimeTypes().guess_type(ending)
    return kind if encoding is None else _COMPRESSED.get(encoding)


def parse_metadata(texts: Iterable[str]) -> dict[str, str]:
    """Parses `name=value` pairs. Converts names to lower case. Raises `InputError` if a pair is not
    valid, if a name is given twice, or if the pairs are too large together."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _is_name(name):
            raise InputError(
                f"--metadata {shown(text)}: write it as name=value; the name consists of ASCII "
                "letters, digits and !#$%&'*+-.^_`|~"
            )
        _check_value(f"--metadata {name}", value)
        name = name.lower()
        if name in pairs:
            raise InputError(f"--metadata {name} is given twice")
        pairs[name] = value
    size = sum(len(name) + len(value.encode()) for name, value in pairs.items())
    if size > METADATA_BYTES_MAX:
        raise InputError(
            f"--metadata: the metadata has {size} bytes; the maximum is {METADATA_BYTES_MAX}"
        )
    return pairs


def parse_range(text: str) -> ByteRange:
    """Parses a range of bytes: `A-B` (both included), `A-` (to the end) or `-N` (the last N)."""
    from lakebed.seglake.ranges import ByteRange

    match = _RANGE.fullmatch(text)
    first, last = match.groups() if match is not None else ("", "")
    if not first and not last:
        raise InputError(f"--range {shown(text)}: write it as A-B, A- or -N, in bytes")
    if first and last and int(last) < int(first):
        raise InputError(f"--range {text}: the last byte is before the first byte")
    return ByteRange(int(first) if first else None, int(last) if last else None)


def _check_value(what: str, value: str) -> None:
    """Raises `InputError` if a text cannot be sent as a header."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what}: {shown(value)} is not valid Unicode") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise InputError(f"{what}: {shown(value)} contains a control character")
