"""The metadata section of a manifest: a JSON object that leaves out fields with default values.

New fields may be added at any time, because decoding ignores unknown fields. A new value of `state`
or of a checksum's algorithm needs a new manifest version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from lakebed.base.errors import Corrupt, InputError
from lakebed.seglake.model import Algorithm, Checksum, Content, State

NO_TEXTS: Mapping[str, str] = MappingProxyType({})
NO_CONTENT = Content()
_HEADERS = (
    "content_type",
    "cache_control",
    "content_disposition",
    "content_encoding",
    "content_language",
    "expires",
)
_STATES = {state.value: state for state in State}
_ALGORITHMS = {algorithm.value: algorithm for algorithm in Algorithm}
_NUMBER_MAX = (1 << 63) - 1
_NAME = re.compile(r"[0-9A-Za-z_-]{1,64}")
_to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode
_from_json = json.JSONDecoder().decode


class Metadata(NamedTuple):
    """The fields of a manifest other than bucket, key, version id, size and chunks."""

    state: State = State.ACTIVE
    etag: str = ""
    modified_ms: int = 0
    is_null: bool = False
    content: Content = NO_CONTENT
    checksums: tuple[Checksum, ...] = ()
    part_sizes: tuple[int, ...] = ()
    tags: Mapping[str, str] = NO_TEXTS
    hlc: str = ""
    site_id: str = ""


def is_name(text: str) -> bool:
    """Whether the text can be a version or segment id, and so is a safe file name.

    Such ids have 1 to 64 letters, digits, `_` and `-`.
    """
    return _NAME.fullmatch(text) is not None


def encode_metadata(metadata: Metadata) -> bytes:
    """Encodes the metadata section, without the length field that precedes it.

    Raises `InputError` if a header or user metadata is not text.
    """
    state, etag, modified_ms, is_null, content, checksums, part_sizes, tags, hlc, site_id = metadata
    fields: dict[str, object] = {}
    if state is not State.ACTIVE:
        fields["state"] = state.value
    if etag:
        fields["etag"] = etag
    if modified_ms:
        fields["modified_ms"] = modified_ms
    if is_null:
        fields["is_null"] = True
    if hlc:
        fields["hlc"] = hlc
    if site_id:
        fields["site_id"] = site_id
    if content is not NO_CONTENT:
        for name in _HEADERS:
            value = getattr(content, name)
            if value is not None:
                fields[name] = _text(name, value)
        if content.metadata:
            fields["metadata"] = {
                _text("metadata", key): _text(key, value) for key, value in content.metadata.items()
            }
    if checksums:
        fields["checksums"] = [_checksum_fields(checksum) for checksum in checksums]
    if part_sizes:
        fields["part_sizes"] = part_sizes
    if tags:
        fields["tags"] = dict(tags)
    return _to_json(fields).encode("ascii")


def decode_metadata(section: bytes, *, size: int) -> Metadata:
    """Decodes the metadata section of an object of `size` bytes.

    Raises `Corrupt` if the section is damaged. The error has no path and no offset.
    """
    try:
        fields = _from_json(section.decode("ascii"))
    except (ValueError, RecursionError):
        raise Corrupt("the metadata section of the manifest is not JSON") from None
    if type(fields) is not dict:
        raise _wrong("the metadata section", fields)
    take = fields.get
    state = take("state", "ACTIVE")
    etag = take("etag", "")
    modified_ms = take("modified_ms", 0)
    is_null = take("is_null", False)
    hlc = take("hlc", "")
    site_id = take("site_id", "")
    # Checked together, because every read of an object runs this.
    if not type(etag) is type(hlc) is type(site_id) is type(state) is str:
        raise _wrong("state, etag, hlc or site_id", [state, etag, hlc, site_id])
    if type(is_null) is not bool or state not in _STATES:
        raise _wrong("state or is_null", [state, is_null])
    return Metadata(
        _STATES[state],
        etag,
        _number("modified_ms", modified_ms),
        is_null,
        _content(fields),
        _checksums(fields["checksums"]) if "checksums" in fields else (),
        _part_sizes(fields["part_sizes"], size) if "part_sizes" in fields else (),
        _texts("tags", fields["tags"]) if "tags" in fields else NO_TEXTS,
        hlc,
        site_id,
    )


def _text(name: str, value: object) -> str:
    if type(value) is not str:
        raise InputError(f"the value of {name} must be text, not {value!r}")
    return value


def _checksum_fields(checksum: Checksum) -> dict[str, object]:
    fields: dict[str, object] = {
        "algorithm": checksum.algorithm.value,
        "value": checksum.value,
    }
    if checksum.is_composite:
        fields["is_composite"] = True
    return fields


def _checksums(items: object) -> tuple[Checksum, ...]:
    return tuple([_checksum(item) for item in _list("checksums", items)])


def _checksum(item: object) -> Checksum:
    if type(item) is not dict:
        raise _wrong("checksums", item)
    algorithm = item.get("algorithm")
    value = item.get("value")
    is_composite = item.get("is_composite", False)
    if not type(algorithm) is type(value) is str or type(is_composite) is not bool:
        raise _wrong("checksums", item)
    if algorithm not in _ALGORITHMS:
        raise _wrong("checksums", item)
    return Checksum(_ALGORITHMS[algorithm], value, is_composite)


def _part_sizes(items: object, size: int) -> tuple[int, ...]:
    part_sizes = tuple([_number("part_sizes", item) for item in _list("part_sizes", items)])
    if sum(part_sizes) != size:
        raise _wrong("part_sizes", sum(part_sizes))
    return part_sizes


def _content(fields: dict[str, Any]) -> Content:
    headers = {name: fields[name] for name in _HEADERS if name in fields}
    for name, value in headers.items():
        if type(value) is not str:
            raise _wrong(name, value)
    if "metadata" in fields:
        return Content(**headers, metadata=_texts("metadata", fields["metadata"]))
    return Content(**headers) if headers else NO_CONTENT


def _number(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise _wrong(name, value)
    return value


def _list(name: str, value: object) -> list[object]:
    if type(value) is not list:
        raise _wrong(name, value)
    return value


def _texts(name: str, value: object) -> Mapping[str, str]:
    if type(value) is not dict or not all(type(text) is str for text in value.values()):
        raise _wrong(name, value)
    return MappingProxyType(value)


def _wrong(name: str, value: object) -> Corrupt:
    return Corrupt(f"invalid value of {name} in the manifest", found=repr(value)[:80])
