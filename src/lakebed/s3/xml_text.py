"""Writes the text and elements of XML documents.

A key may contain characters that XML 1.0 cannot express. They are written as character references
such as `&#x1;`, as on AWS. Lenient parsers read these references, but strict parsers refuse them,
so clients should use `encoding-type=url`. A carriage return is always written as a reference,
because a parser would turn it into a line feed. Times are in UTC, with milliseconds.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from lakebed.seglake.model import Checksum

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

OWNER_ID: Final = "6c616b65626564000000000000000000000000000000000000000000000000ff"
OWNER_NAME: Final = "lakebed"
OWNER: Final = f"<Owner><ID>{OWNER_ID}</ID><DisplayName>{OWNER_NAME}</DisplayName></Owner>"
INITIATOR: Final = OWNER.replace("Owner>", "Initiator>")
STORAGE_CLASS: Final = "STANDARD"

_MS_PER_S: Final = 1000

# Control characters except tab and line feed, and noncharacters.
_CONTROL: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff"
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TO_ESCAPE = re.compile(f'[&<>"{_CONTROL}]')
_TO_REFERENCE = re.compile(f"[{_CONTROL}]")


def escaped(text: str) -> str:
    """Escapes text for use as the content of an XML element."""
    if not _TO_ESCAPE.search(text):
        return text
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = text.replace('"', "&quot;")
    return _TO_REFERENCE.sub(lambda match: f"&#x{ord(match.group()):X};", text)


def encodable(text: str) -> str:
    """Replaces characters that XML forbids with U+FFFD, for text that is only displayed."""
    return _FORBIDDEN.sub("\ufffd", text)


def element(name: str, text: str) -> str:
    return f"<{name}>{escaped(text)}</{name}>"


def document(name: str, parts: Iterable[str]) -> bytes:
    return "".join((DECLARATION, f'<{name} xmlns="{NAMESPACE}">', *parts, f"</{name}>")).encode()


def time_text(moment_ms: int) -> str:
    seconds, milliseconds = divmod(moment_ms, _MS_PER_S)
    return f"{_second_text(seconds)}.{milliseconds:03d}Z"


@functools.lru_cache(maxsize=4096)
def _second_text(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def key_text(key: str, *, is_url_encoded: bool) -> str:
    """Encodes a key for `encoding-type=url`, or escapes it for XML.

    In URL-encoded keys a space becomes `%20`, which all clients decode. AWS writes `+`, which some
    clients do not decode.
    """
    return quote(key, safe="/") if is_url_encoded else escaped(key)


def bool_text(value: bool) -> str:
    return "true" if value else "false"


def etag_element(etag: str) -> str:
    return element("ETag", f'"{etag}"')


def checksum_elements(checksums: Iterable[Checksum], *, has_type: bool = True) -> list[str]:
    """Returns XML elements such as `ChecksumCRC32`, followed by `ChecksumType` if `has_type`."""
    listed = list(checksums)
    parts = [element(f"Checksum{checksum.algorithm.value}", checksum.value) for checksum in listed]
    if listed and has_type:
        parts.append(checksum_type_element(is_composite=listed[0].is_composite))
    return parts


def checksum_type_element(*, is_composite: bool) -> str:
    return element("ChecksumType", "COMPOSITE" if is_composite else "FULL_OBJECT")
