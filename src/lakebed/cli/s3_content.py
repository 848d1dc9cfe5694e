"""What is said about an object on the command line: its content type, its metadata, its bytes."""

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

METADATA_BYTES_MAX = 2048  # of names and values together, as S3 has it

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
    """The content type is guessed by the first of the names that tells it, if none is given."""
    from lakebed.seglake.model import Content

    if content_type is None:
        content_type = next(filter(None, map(guess_type, names)), None)
    else:
        _check_value("--content-type", content_type)
    return Content(content_type=content_type, metadata=parse_metadata(metadata))


def guess_type(name: str) -> str | None:
    """By the last of the name's endings; what the machine's own tables say does not count."""
    ending = "x" + name[name.rfind(".") :] if "." in name else ""
    kind, encoding = MimeTypes().guess_type(ending)
    return kind if encoding is None else _COMPRESSED.get(encoding)


def parse_metadata(texts: Iterable[str]) -> dict[str, str]:
    """`name=value` each; names are told in lower case."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _is_name(name):
            raise InputError(
                f"--metadata {shown(text)}: expected name=value, a name without spaces"
            )
        _check_value(f"--metadata {name}", value)
        name = name.lower()
        if name in found:
            raise InputError(f"--metadata {name} is there twice")
        found[name] = value
    size = sum(len(name) + len(value.encode()) for name, value in found.items())
    if size > METADATA_BYTES_MAX:
        raise InputError(f"the metadata are {size} bytes, at most {METADATA_BYTES_MAX} are kept")
    return found


def parse_range(text: str) -> ByteRange:
    """`A-B`, both inclusive; `A-` to the end; `-N`, the last N."""
    from lakebed.seglake.ranges import ByteRange

    match = _RANGE.fullmatch(text)
    first, last = match.groups() if match is not None else ("", "")
    if not first and not last:
        raise InputError(f"--range {shown(text)}: expected A-B, A- or -COUNT, in bytes")
    if first and last and int(last) < int(first):
        raise InputError(f"--range {text}: the last byte stands before the first")
    return ByteRange(int(first) if first else None, int(last) if last else None)


def _check_value(what: str, value: str) -> None:
    """It must fit in a header."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what}: {shown(value)} is not valid Unicode") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise InputError(f"{what}: {shown(value)} holds a control character")
