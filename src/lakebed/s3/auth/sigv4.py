"""AWS signature version 4 for S3: the canonical request, the signing key and the signature.

All functions work on text and bytes only and need no clock, store or request object.

Clients differ in how they encode path, query and white space in the text they sign. Nearly all sign
path and query as they send them, so that form is tried first. The forms below are tried after it.
They are equivalent to the request as sent, so a match always means that this request was signed:

- path: percent-decoded and encoded again as S3 does, with `%2F` kept or turned into a slash;
- query: decoded, with `+` as a space, and encoded again; empty pairs are left out;
- header values: without white space at the ends, and with inner white space as sent or reduced to
  single spaces.

Each character of the text is one byte (Latin-1), so that bytes that are not UTF-8 can be signed.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest, digest
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "s3"
SCOPE_END = "aws4_request"

Pair = tuple[str, str]

_UNRESERVED = "-_.~"
_BLANKS = re.compile(r"[ \t]+")
_ENCODED_SLASH = re.compile(rb"%2[Ff]")


class SignedHeaders(NamedTuple):
    """The names of the signed headers: as the text that was sent, as a tuple, and as a set."""

    text: str
    names: tuple[str, ...]
    lookup: frozenset[str]


@lru_cache(maxsize=256)
def signed_headers(text: str) -> SignedHeaders:
    """Splits the list of signed headers at semicolons.

    The result is cached, because clients send the same few lists.
    """
    names = tuple(text.split(";"))
    return SignedHeaders(text, names, frozenset(names))


class Parts(NamedTuple):
    """The parts of a request that the signature covers.

    `pairs` are the query parameters other than the signature itself.
    """

    method: str
    path: str
    pairs: Sequence[Pair]
    values: Sequence[str]  # of the signed headers, in their order
    signed: SignedHeaders
    payload: str

    def forms(self) -> Iterator[bytes]:
        """Yields every canonical request that the client may have signed, the usual form first."""
        yield self._with(self.path or "/", _joined(self.pairs), self._headers(is_collapsed=True))
        yield from self._other_forms()

    @property
    def re_encoded(self) -> bytes:
        """The canonical request in the form that AWS documents, for error messages."""
        path = _re_encoded_path(self.path, keeps_slashes=False)
        return self._with(path, _re_encoded_query(self.pairs), self._headers(is_collapsed=True))

    def _other_forms(self) -> Iterator[bytes]:
        kept, plain = (_re_encoded_path(self.path, keeps_slashes=keeps) for keeps in (True, False))
        paths = dict.fromkeys((self.path or "/", kept, plain))
        queries = dict.fromkeys((_joined(self.pairs), _re_encoded_query(self.pairs)))
        headers = dict.fromkeys((self._headers(is_collapsed=True), self._headers()))
        forms = [(path, query, lines) for path in paths for query in queries for lines in headers]
        return (self._with(*form) for form in forms[1:])

    def _headers(self, *, is_collapsed: bool = False) -> str:
        lines = "\n".join(map(":".join, zip(self.signed.names, self.values, strict=True))) + "\n"
        if "  " not in lines and "\t" not in lines and ": " not in lines and " \n" not in lines:
            return lines  # the usual case: there is nothing to trim
        trim = trimmed if is_collapsed else _stripped
        pairs = zip(self.signed.names, self.values, strict=True)
        return "".join([f"{name}:{trim(value)}\n" for name, value in pairs])

    def _with(self, path: str, query: str, headers: str) -> bytes:
        text = f"{self.method}\n{path}\n{query}\n{headers}\n{self.signed.text}\n{self.payload}"
        return text.encode("latin-1")


def is_signed_as(
    parts: Parts, given: str, *, signing_key: bytes, timestamp: str, scope: str
) -> bool:
    """Whether the signature `given` matches any form of the canonical request.

    Each comparison takes constant time.
    """
    given_bytes = given.encode("utf-8", "replace")
    for form in parts.forms():
        text = string_to_sign(form, timestamp=timestamp, scope=scope)
        if compare_digest(signature(signing_key, text).encode(), given_bytes):
            return True
    return False


def header_values(
    names: Sequence[str], headers: Mapping[str, str], fields: Sequence[tuple[bytes, bytes]]
) -> list[str] | None:
    """Returns the values of the signed headers, in the order of `names`; None if one is missing.

    `fields` are the header fields as sent. The values are taken from them if any is not ASCII.
    """
    try:
        values = [headers[name] for name in names]
    except KeyError:
        return None
    if not "".join(values).isascii():
        return [_as_sent(name, fields) for name in names]
    return values


def query_pairs(raw_query: bytes) -> list[Pair]:
    """Splits a query into names and values without decoding them."""
    if not raw_query:
        return []
    pairs = (pair.partition("=") for pair in raw_query.decode("latin-1").split("&"))
    return [(name, value) for name, _, value in pairs]


def decoded(text: str) -> str:
    """Percent-decodes the name or value of a query parameter; `+` becomes a space."""
    if "%" not in text and "+" not in text:
        return text
    return unquote_to_bytes(text.replace("+", " ").encode("latin-1")).decode("latin-1")


def trimmed(value: str) -> str:
    """Removes white space at both ends and reduces each run of white space to one space."""
    if "  " in value or "\t" in value:
        value = _BLANKS.sub(" ", value)
    return value.strip(" ")


def _stripped(value: str) -> str:
    return value.strip(" \t")


def scope_text(date: str, region: str) -> str:
    return f"{date}/{region}/{SERVICE}/{SCOPE_END}"


def string_to_sign(canonical_request: bytes, *, timestamp: str, scope: str) -> str:
    return f"{ALGORITHM}\n{timestamp}\n{scope}\n{sha256(canonical_request).hexdigest()}"


def signature(signing_key: bytes, text: str) -> str:
    return digest(signing_key, text.encode("latin-1"), "sha256").hex()


def signing_key(secret: str, *, date: str, region: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in (date, region, SERVICE, SCOPE_END):
        key = digest(key, part.encode("latin-1"), "sha256")
    return key


class SigningKeys:
    """A cache of the signing keys derived from secrets. Not thread-safe."""

    def __init__(self, count_max: int = 1024) -> None:
        self._count_max = count_max
        self._keys: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()

    def key(self, secret: str, *, date: str, region: str) -> bytes:
        cache_key = (secret, date, region)
        derived = self._keys.get(cache_key)
        if derived is None:
            derived = self._keys[cache_key] = signing_key(secret, date=date, region=region)
            if len(self._keys) > self._count_max:
                self._keys.popitem(last=False)
        else:
            self._keys.move_to_end(cache_key)
        return derived


def _as_sent(name: str, fields: Sequence[tuple[bytes, bytes]]) -> str:
    raw_name = name.encode("latin-1", "replace")
    values = [value.strip(b" \t") for field, value in fields if field.lower() == raw_name]
    return b",".join(values).decode("latin-1")


def _joined(pairs: Sequence[Pair]) -> str:
    """Joins query parameters with `&`, sorted by name and value."""
    if not pairs:
        return ""
    return "&".join([f"{name}={value}" for name, value in sorted(pairs)])


def _re_encoded_query(pairs: Sequence[Pair]) -> str:
    return _joined([(_re_encoded(name), _re_encoded(value)) for name, value in _filled(pairs)])


def _filled(pairs: Sequence[Pair]) -> Iterator[Pair]:
    return (pair for pair in pairs if any(pair))


def _re_encoded(text: str) -> str:
    return quote_from_bytes(decoded(text).encode("latin-1"), safe=_UNRESERVED)


def _re_encoded_path(path: str, *, keeps_slashes: bool) -> str:
    raw = path.encode("latin-1") or b"/"
    if not keeps_slashes:
        return quote_from_bytes(unquote_to_bytes(raw))
    pieces = _ENCODED_SLASH.split(raw)
    return "%2F".join([quote_from_bytes(unquote_to_bytes(piece)) for piece in pieces])
