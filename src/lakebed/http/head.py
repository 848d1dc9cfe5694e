"""The parser of request heads: the request line and the headers.

llhttp (through httptools) parses the headers and rejects bare CR or LF, folded lines, space before
a colon, control bytes, lengths that are not plain numbers, and `Content-Length` together with
`Transfer-Encoding`. This module also rejects requests that llhttp would accept, such as those with
a version other than 1.0 and 1.1, two spaces in a row in the request line, a transfer encoding other
than `chunked`, a repeated `Host`, no `Host` in HTTP/1.1, or a target that is neither a path nor a
URL, except `OPTIONS *`. Only this module and `chunks` decide where a body ends, never llhttp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import httptools

from lakebed.http.limits import Limits
from lakebed.http.refusal import Refused

END = b"\r\n\r\n"

_VERSIONS = {b"HTTP/1.1": "1.1", b"HTTP/1.0": "1.0"}
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_ONCE = _FRAMING | {"host"}
_LENGTH_DIGITS_MAX = 18
_NAMES_MAX = 4096  # clients may invent any number of names
_NAME_BYTES_MAX = 64
_SLASH = ord("/")

Fields = list[tuple[bytes, bytes]]


class Head(NamedTuple):
    """The parsed head of a request. `length` is the body's length, or None if it is chunked."""

    method: str
    raw_path: bytes
    raw_query: bytes
    version: str
    fields: Fields
    headers: dict[str, str]
    length: int | None
    keeps_alive: bool
    expects_continue: bool


class HeadReader:
    """Parses request heads and caches header names. Not thread-safe."""

    __slots__ = ("_count_max", "_header_bytes_max", "_names", "_url_bytes_max", "on_header")

    on_header: Callable[[bytes, bytes], object]  # called by llhttp

    def __init__(self, limits: Limits) -> None:
        self._url_bytes_max = limits.url_bytes_max
        self._header_bytes_max = limits.header_bytes_max
        self._count_max = limits.header_count_max
        self._names: dict[bytes, str] = {}  # names seen before, and their lower-case form

    def read(self, data: bytes) -> Head:
        """Parses a complete head, up to and including the empty line.

        Raises `Refused` if the head is invalid, too large or requires an unsupported feature.
        """
        line_end = data.find(b"\r\n")
        parts = data[:line_end].split(b" ")
        if len(parts) != 3:
            raise Refused(400, "the request line must be a method, a target and an HTTP version")
        method, target, version = parts
        version_number = _VERSIONS.get(version)
        if version_number is None:
            raise _bad_version(version)
        if len(target) > self._url_bytes_max:
            raise Refused(414, f"the request target is longer than {self._url_bytes_max} bytes")
        if len(data) - line_end > self._header_bytes_max:
            raise Refused(431, f"the headers are larger than {self._header_bytes_max} bytes")
        line_count = data.count(b"\r\n") - 2
        if line_count > self._count_max:
            raise Refused(431, f"the request has more than {self._count_max} header lines")
        fields, headers = self._read_fields(data, line_count)
        if target[0] != _SLASH:
            target = _path_of(method, target, headers)
        elif target.find(b"#") >= 0:  # quicker than `in`
            raise Refused(400, "the request target must not have a fragment (#)")
        path, _, query = target.partition(b"?")
        if "host" not in headers and version_number == "1.1":
            raise Refused(400, "the Host header is missing")
        length = 0 if _FRAMING.isdisjoint(headers) else _length(version_number, headers)
        keeps_alive = version_number == "1.1"
        if "connection" in headers:
            keeps_alive = _keeps_alive(version_number, headers["connection"])
        expects = "expect" in headers and _expects_continue(version_number, headers["expect"])
        return Head(
            method.decode("ascii"),
            path,
            query,
            version_number,
            fields,
            headers,
            length,
            keeps_alive,
            expects and length != 0,
        )

    def _read_fields(self, data: bytes, line_count: int) -> tuple[Fields, dict[str, str]]:
        values: dict[bytes, bytes] = {}
        # Fast: a dictionary's own method is called directly. It keeps one value per name.
        self.on_header = values.__setitem__
        self._parse(data)
        names = self._names
        try:
            headers = {
                names[name]: value.rstrip().decode("latin-1") for name, value in values.items()
            }
        except KeyError:
            return self._read_slowly(data)  # a name that was not seen before
        if len(headers) != line_count:
            return self._read_slowly(data)  # a repeated name
        return list(values.items()), headers

    def _parse(self, data: bytes) -> None:
        try:
            httptools.HttpRequestParser(self).feed_data(data)
        except httptools.HttpParserInvalidMethodError as error:
            is_word = data.partition(b" ")[0].isalpha()
            raise Refused(501 if is_word else 400, "the HTTP method is not supported") from error
        except httptools.HttpParserUpgrade as error:
            if data.startswith(b"CONNECT "):
                raise Refused(501, "the HTTP method CONNECT is not supported") from error
            # The client offered to switch to another protocol. The server ignores the offer.
        except httptools.HttpParserError as error:
            raise Refused(400, f"the request head is malformed: {error}") from error

    def _read_slowly(self, data: bytes) -> tuple[Fields, dict[str, str]]:
        """Parses heads that have a header name not seen before, or a repeated one."""
        fields: Fields = []
        self.on_header = lambda name, value: fields.append((name, value))
        self._parse(data)
        headers: dict[str, str] = {}
        for name, value in fields:
            key, text = self._lower(name), value.rstrip().decode("latin-1")
            if key not in headers:
                headers[key] = text
            elif key in _ONCE:
                raise Refused(400, f"the header {key} occurs more than once")
            else:
                headers[key] = f"{headers[key]},{text}"
        return fields, headers

    def _lower(self, name: bytes) -> str:
        lower_name = self._names.get(name)
        if lower_name is None:
            lower_name = name.lower().decode("latin-1")
            if len(self._names) < _NAMES_MAX and len(name) < _NAME_BYTES_MAX:
                self._names[name] = lower_name
        return lower_name


def check_begin(data: bytes | bytearray, limits: Limits) -> None:
    """Raises `Refused` if an incomplete head is already known to be invalid or too large."""
    end = data.find(b"\r\n")
    if end > limits.url_bytes_max + 64 or (end < 0 and len(data) > limits.url_bytes_max + 64):
        raise Refused(
            414,
            f"the request line is too long: the target may have {limits.url_bytes_max} bytes at "
            "most",
        )
    if end < 0:
        if data.find(b"\n") >= 0 or not data[:1].isalpha():
            raise Refused(400, "the request line is malformed")
        return
    if len(data) - end > limits.header_bytes_max:
        raise Refused(431, f"the headers are larger than {limits.header_bytes_max} bytes")
    version = bytes(data[:end]).rpartition(b" ")[2]
    if version not in _VERSIONS:
        raise _bad_version(version)
    if data.find(b"\n\n", end) >= 0:
        raise Refused(400, "a header line does not end in CR LF")


def _length(version: str, headers: dict[str, str]) -> int | None:
    announced = headers.get("content-length")
    encoding = headers.get("transfer-encoding")
    if encoding is not None:
        if announced is not None or version == "1.0":
            raise Refused(
                400, "Transfer-Encoding is not allowed with Content-Length or in HTTP/1.0"
            )
        if encoding.lower() != "chunked":
            raise Refused(501, "the transfer encoding is not supported: only chunked is supported")
        return None
    if announced is None:
        return 0
    if not (announced.isascii() and announced.isdigit() and len(announced) <= _LENGTH_DIGITS_MAX):
        raise Refused(400, f"Content-Length must be 1 to {_LENGTH_DIGITS_MAX} decimal digits")
    return int(announced)


def _keeps_alive(version: str, connection: str) -> bool:
    options = {option.strip(" \t") for option in connection.lower().split(",")}
    return "close" not in options and (version == "1.1" or "keep-alive" in options)


def _expects_continue(version: str, expectation: str) -> bool:
    if version == "1.0":
        return False
    if expectation.lower() != "100-continue":
        raise Refused(417, "the Expect header is not supported: only 100-continue is supported")
    return True


def _path_of(method: bytes, target: bytes, headers: dict[str, str]) -> bytes:
    """Returns the path and query of a request target that is a URL; a missing path becomes `/`.

    The target `*` is returned unchanged if the method is OPTIONS. Raises `Refused` for any other
    target that is not a valid HTTP URL, or if the host in the URL differs from the `Host` header.
    """
    if target == b"*" and method == b"OPTIONS":
        return target
    scheme, colon, after_scheme = target.partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https") or b"#" in target:
        raise Refused(
            400,
            "the request target is neither a path nor an http:// or https:// URL, or has a #",
        )
    ends = [at for at in (after_scheme.find(b"/"), after_scheme.find(b"?")) if at >= 0]
    end = min(ends, default=len(after_scheme))
    authority, path = after_scheme[:end].decode("latin-1"), after_scheme[end:]
    if not authority or "@" in authority:
        raise Refused(400, "the host in the request target is malformed")
    if headers.get("host", authority).lower() != authority.lower():
        raise Refused(400, "the host in the request target differs from the Host header")
    return path if path.startswith(b"/") else b"/" + path


def _bad_version(version: bytes) -> Refused:
    if version.startswith(b"HTTP/"):
        return Refused(505, "the HTTP version is not supported: only 1.0 and 1.1 are supported")
    return Refused(400, "the request line has no HTTP version")
