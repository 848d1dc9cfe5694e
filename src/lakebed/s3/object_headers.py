"""The headers of objects in requests and responses.

The HTTP server decodes and encodes header values as Latin-1, one character per byte; this module
converts them from and to UTF-8. User metadata may also be sent as RFC 2047 encoded words, and is
returned as encoded words if it is not plain ASCII, as on AWS.

Invariant: no control character except tab reaches a response header, whatever is stored.
"""

from __future__ import annotations

import base64
import quopri
import re
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Final

from lakebed.s3.errors import S3Error, invalid_argument, to_s3
from lakebed.s3.service import Service
from lakebed.seglake.errors import MethodNotAllowed
from lakebed.seglake.model import Content, ObjectInfo, State, Versioning
from lakebed.seglake.objects import NO_CONTENT

HeaderList = list[tuple[str, str]]

METADATA: Final = "x-amz-meta-"
METADATA_BYTES_MAX: Final = 2048  # all names and values together
DEFAULT_TYPE: Final = "binary/octet-stream"

_CHUNKED: Final = "aws-chunked"
_MS_PER_S: Final = 1000
_DATES_KEPT: Final = 4096
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_WORD = re.compile(r"=\?([^?\s]{1,40})\?([bBqQ])\?([^?\s]*)\?=")
_BETWEEN_WORDS = re.compile(r"\?=\s+=\?")
_TOKEN = re.compile(r"[0-9a-z!#$%&'*+.^_`|~-]+")

_CONTENT: Final = (
    ("content_type", "Content-Type"),
    ("cache_control", "Cache-Control"),
    ("content_disposition", "Content-Disposition"),
    ("content_encoding", "Content-Encoding"),
    ("content_language", "Content-Language"),
    ("expires", "Expires"),
)
_CONTENT_REQUESTED: Final = tuple((field, name.lower()) for field, name in _CONTENT)
_STATED: Final = tuple((field, name) for field, name in _CONTENT if field != "content_type")


def content_of(headers: Mapping[str, str]) -> Content:
    """Returns the headers and user metadata of a request that are stored with the object.

    Leaves out `aws-chunked` in `Content-Encoding`. Raises the S3 error `InvalidArgument` if a
    header other than user metadata has control characters, and `MetadataTooLarge` if the user
    metadata has more than `METADATA_BYTES_MAX` bytes.
    """
    fields: dict[str, str] = {}
    for field, name in _CONTENT_REQUESTED:
        value = headers.get(name)
        if value is not None:
            check_encodable(name, value)
            fields[field] = text(value)
    if "content_encoding" in fields:
        encodings = _without_framing(fields.pop("content_encoding"))
        if encodings:
            fields["content_encoding"] = encodings
    metadata = _metadata_of(headers)
    if not fields and not metadata:
        return NO_CONTENT
    return Content(
        content_type=fields.get("content_type"),
        cache_control=fields.get("cache_control"),
        content_disposition=fields.get("content_disposition"),
        content_encoding=fields.get("content_encoding"),
        content_language=fields.get("content_language"),
        expires=fields.get("expires"),
        metadata=metadata,
    )


def object_headers(info: ObjectInfo, *, version_id: str | None) -> HeaderList:
    """Returns the response headers that describe an object."""
    content = info.content
    headers = [
        ("ETag", f'"{info.etag}"'),
        ("Last-Modified", http_date(info.modified_ms)),
        ("Accept-Ranges", "bytes"),
        ("Content-Type", wire(content.content_type or DEFAULT_TYPE)),
    ]
    if version_id is not None:
        headers.append(("x-amz-version-id", version_id))
    for field, name in _STATED:
        value = getattr(content, field)
        if value is not None:
            headers.append((name, wire(value)))
    if content.metadata:
        headers += _metadata_headers(content.metadata)
    if info.state is State.CONFLICT:
        headers.append(("x-seglake-conflict", "true"))
    return headers


def shown_version(service: Service, info: ObjectInfo) -> str | None:
    """Returns the version id to send in a response; None for a null version if the bucket is
    unversioned.
    """
    if not info.is_null:
        return info.version_id
    versioning = service.lake.buckets.get(info.bucket).versioning
    return None if versioning is Versioning.DISABLED else info.shown_version_id


def marker_refusal(error: MethodNotAllowed) -> S3Error:
    """Returns the S3 error for reading a delete marker by its version id.

    The header `Last-Modified` of the error is the marker's creation time.
    """
    refusal = to_s3(error)
    return S3Error(
        refusal.code,
        str(refusal),
        headers=(*refusal.headers, ("Last-Modified", http_date(error.modified_ms))),
        details=refusal.details,
    )


def quoted(etag: str) -> str:
    return f'"{etag}"'


def http_date(moment_ms: int) -> str:
    return _date(moment_ms // _MS_PER_S)


def wire(value: str) -> str:
    """Encodes text for a response header: as UTF-8, one character per byte.

    Control characters other than tab are replaced with spaces.
    """
    if not value.isascii():
        value = value.encode(errors="replace").decode("latin-1")
    return _CONTROLS.sub(" ", value)


def text(value: str) -> str:
    """Decodes a request header's value, which has one character per byte, as UTF-8.

    A value that is not UTF-8 is returned unchanged, as Latin-1.
    """
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value.encode(errors="replace").decode()


def check_encodable(name: str, value: str) -> None:
    """Raises the S3 error `InvalidArgument` if the value has control characters other than tab.

    Such a value could not be returned in a response header later. `name` is that of the header.
    """
    if _CONTROLS.search(value):
        raise invalid_argument(
            "Header values must not contain control characters", name=name, value=value
        )


def _without_framing(encodings: str) -> str:
    """Removes `aws-chunked` from a list of content encodings.

    That encoding describes how the body was sent, not how the object is encoded.
    """
    if _CHUNKED not in encodings:
        return encodings
    kept = [encoding.strip() for encoding in encodings.split(",") if encoding.strip() != _CHUNKED]
    return ",".join(encoding for encoding in kept if encoding)


def _metadata_of(headers: Mapping[str, str]) -> dict[str, str]:
    metadata = {
        name[len(METADATA) :]: _decoded_word(text(value))
        for name, value in headers.items()
        if name.startswith(METADATA)
    }
    size = sum(len(name) + len(value.encode(errors="replace")) for name, value in metadata.items())
    if size > METADATA_BYTES_MAX:
        raise S3Error(
            "MetadataTooLarge",
            "Your metadata headers exceed the maximum allowed metadata size",
            details=(("Size", str(size)), ("MaxSizeAllowed", str(METADATA_BYTES_MAX))),
        )
    return metadata


def _decoded_word(value: str) -> str:
    """Decodes RFC 2047 encoded words; other text is returned unchanged."""
    if "=?" not in value:
        return value
    try:
        decoded = _WORD.sub(_word_text, _BETWEEN_WORDS.sub("?==?", value))
        decoded.encode()
    except (LookupError, ValueError):
        return value
    return decoded


def _word_text(word: re.Match[str]) -> str:
    charset, encoding, encoded = word.groups()
    if encoding in "bB":
        return base64.b64decode(encoded, validate=True).decode(charset)
    return quopri.decodestring(encoded.encode(), header=True).decode(charset)


def _metadata_headers(metadata: Mapping[str, str]) -> HeaderList:
    headers = []
    missing = 0
    for name, value in metadata.items():
        if not _TOKEN.fullmatch(name):
            missing += 1  # not a valid header name, so it was not stored through S3
            continue
        if not _PLAIN.fullmatch(value) or _decoded_word(value) != value:
            encoded = base64.b64encode(value.encode(errors="replace")).decode()
            value = f"=?UTF-8?B?{encoded}?="
        headers.append((METADATA + name, value))
    if missing:
        headers.append(("x-amz-missing-meta", str(missing)))
    return headers


@lru_cache(maxsize=_DATES_KEPT)
def _date(moment_s: int) -> str:
    return formatdate(moment_s, usegmt=True)
