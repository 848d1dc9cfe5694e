"""Encodes structs as MessagePack or as JSON. In JSON, bytes are base64."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from lakebed.base.errors import InputError
from lakebed.base.layout import Buffer

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
LINES: Final = "application/x-ndjson"
BYTES: Final = "application/octet-stream"
PROBLEM: Final = "application/problem+json"

Kind = TypeVar("Kind")


def _plain(value: object) -> object:
    if isinstance(value, int):  # record ids
        return int(value)
    if isinstance(value, MappingProxyType):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be encoded as JSON or MessagePack")


_to_json = msgspec.json.Encoder(enc_hook=_plain).encode
_to_msgpack = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_json_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_msgpack_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


class BadDocument(InputError):
    """A request or response body is not a valid document of the expected type."""


def encode(value: object, media: str) -> bytes:
    """Encodes a value; `media` is `JSON` or `MSGPACK`."""
    return _to_msgpack(value) if media == MSGPACK else _to_json(value)


def decode(data: Buffer, kind: type[Kind], media: str) -> Kind:
    """Decodes a document as a `kind`. Raises `BadDocument` if it is not valid."""
    decoder: msgspec.json.Decoder[Any] | msgspec.msgpack.Decoder[Any]
    if media == MSGPACK:
        decoder = _msgpack_decoders.get(kind) or _msgpack_decoders.setdefault(
            kind, msgspec.msgpack.Decoder(kind)
        )
    else:
        decoder = _json_decoders.get(kind) or _json_decoders.setdefault(
            kind, msgspec.json.Decoder(kind)
        )
    try:
        value: Kind = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadDocument(f"the body is not valid: {error}") from None
    return value
