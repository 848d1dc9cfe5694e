"""The head of a request: request line and header, as bytes in, checked and told apart.

llhttp (by httptools) reads the header, and refuses all that is not clean: bare CR or LF, folded
lines, space before a colon, control bytes, lengths that are no plain number, `Content-Length` with
`Transfer-Encoding`. It lets pass, and so it is refused here: versions other than 1.0 and 1.1, two
spaces in the request line, encodings other than `chunked`, a missing or repeated `Host`, a target
that is no path. Where a body ends is decided here and in `chunks` alone, never by llhttp.
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
_NAMES_MAX = 4096  # a client may invent any number of them
_NAME_BYTES_MAX = 64
_SLASH = ord("/")

Fields = list[tuple[bytes, bytes]]


class Head(NamedTuple):
    """A request without its body. `length` is None if the body is chunked, 0 if there is none."""

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
    """Reads heads. Used by one thread."""

    __slots__ = ("_count_max", "_header_bytes_max", "_names", "_url_bytes_max", "on_header")

    on_header: Callable[[bytes, bytes], object]  # what llhttp calls

    def __init__(self, limits: Limits) -> None:
        self._url_bytes_max = limits.url_bytes_max
        self._header_bytes_max = limits.header_bytes_max
        self._count_max = limits.header_count_max
        self._names: dict[bytes, str] = {}  # those seen before, in lower case

    def read(self, data: bytes) -> Head:
        """`data` is everything up to and with the empty line. `Refused`."""
        line_end = data.find(b"\r\n")
        parts = data[:line_end].split(b" ")
        if len(parts) != 3:
            raise Refused(400, "the request line is not a method, a target and a version")
        method, target, version = parts
        known_version = _VERSIONS.get(version)
        if known_version is None:
            raise _bad_version(version)
        if len(target) > self._url_bytes_max:
            raise Refused(414, f"the target is longer than {self._url_bytes_max} bytes")
        if len(data) - line_end > self._header_bytes_max:
            raise Refused(431, f"the header is larger than {self._header_bytes_max} bytes")
        line_count = data.count(b"\r\n") - 2
        if line_count > self._count_max:
            raise Refused(431, f"the header has more than {self._count_max} lines")
        fields, headers = self._read_fields(data, line_count)
        if target[0] != _SLASH:
            target = _path_of(method, target, headers)
        elif target.find(b"#") >= 0:  # quicker than `in`
            raise Refused(400, "the target has a fragment")
        path, _, query = target.partition(b"?")
        if "host" not in headers and known_version == "1.1":
            raise Refused(400, "the header has no Host")
        length = 0 if _FRAMING.isdisjoint(headers) else _length(known_version, headers)
        keeps_alive = known_version == "1.1"
        if "connection" in headers:
            keeps_alive = _keeps_alive(known_version, headers["connection"])
        expects = "expect" in headers and _expects_continue(known_version, headers["expect"])
        return Head(
            method.decode("ascii"),
            path,
            query,
            known_version,
            fields,
            headers,
            length,
            keeps_alive,
            expects and length != 0,
        )

    def _read_fields(self, data: bytes, line_count: int) -> tuple[Fields, dict[str, str]]:
        values: dict[bytes, bytes] = {}
        # A method of a dictionary is called without a detour. It keeps one value a name.
        self.on_header = values.__setitem__
        self._parse(data)
        names = self._names
        try:
            headers = {
                names[name]: value.rstrip().decode("latin-1") for name, value in values.items()
            }
        except KeyError:
            return self._read_slowly(data)  # names seen for the first time
        if len(headers) != line_count:
            return self._read_slowly(data)  # names that come more than once
        return list(values.items()), headers

    def _parse(self, data: bytes) -> None:
        try:
            httptools.HttpRequestParser(self).feed_data(data)
        except httptools.HttpParserInvalidMethodError as error:
            is_word = data.partition(b" ")[0].isalpha()
            raise Refused(501 if is_word else 400, "the method is not known") from error
        except httptools.HttpParserUpgrade as error:
            if data.startswith(b"CONNECT "):
                raise Refused(501, "CONNECT is not served") from error
            # Another protocol was offered. It is not taken up: the answer is in this one.
        except httptools.HttpParserError as error:
            raise Refused(400, f"the head is malformed: {error}") from error

    def _read_slowly(self, data: bytes) -> tuple[Fields, dict[str, str]]:
        """Whatever names there are, and however often."""
        fields: Fields = []
        self.on_header = lambda name, value: fields.append((name, value))
        self._parse(data)
        headers: dict[str, str] = {}
        for name, value in fields:
            key, text = self._lower(name), value.rstrip().decode("latin-1")
            if key not in headers:
                headers[key] = text
            elif key in _ONCE:
                raise Refused(400, f"{key} is repeated")
            else:
                headers[key] = f"{headers[key]},{text}"
        return fields, headers

    def _lower(self, name: bytes) -> str:
        known = self._names.get(name)
        if known is None:
            known = name.lower().decode("latin-1")
            if len(self._names) < _NAMES_MAX and len(name) < _NAME_BYTES_MAX:
                self._names[name] = known
        return known


def check_begin(data: bytes | bytearray, limits: Limits) -> None:
    """Of a head that has not come whole: refuse what can become none. `Refused`."""
    end = data.find(b"\r\n")
    if end > limits.url_bytes_max + 64 or (end < 0 and len(data) > limits.url_bytes_max + 64):
        raise Refused(414, f"the target is longer than {limits.url_bytes_max} bytes")
    if end < 0:
        if data.find(b"\n") >= 0 or not data[:1].isalpha():
            raise Refused(400, "this is no request line")
        return
    if len(data) - end > limits.header_bytes_max:
        raise Refused(431, f"the header is larger than {limits.header_bytes_max} bytes")
    version = bytes(data[:end]).rpartition(b" ")[2]
    if version not in _VERSIONS:
        raise _bad_version(version)
    if data.find(b"\n\n", end) >= 0:
        raise Refused(400, "a line of the header does not end in CR LF")


def _length(version: str, headers: dict[str, str]) -> int | None:
    told = headers.get("content-length")
    encoding = headers.get("transfer-encoding")
    if encoding is not None:
        if told is not None or version == "1.0":
            raise Refused(400, "the length of the body is told in two ways")
        if encoding.lower() != "chunked":
            raise Refused(501, "of transfer encodings only chunked is known")
        return None
    if told is None:
        return 0
    if not (told.isascii() and told.isdigit() and len(told) <= _LENGTH_DIGITS_MAX):
        raise Refused(400, "Content-Length is no plain number")
    return int(told)


def _keeps_alive(version: str, connection: str) -> bool:
    options = {option.strip(" \t") for option in connection.lower().split(",")}
    return "close" not in options and (version == "1.1" or "keep-alive" in options)


def _expects_continue(version: str, expectation: str) -> bool:
    if version == "1.0":
        return False
    if expectation.lower() != "100-continue":
        raise Refused(417, "of expectations only 100-continue is known")
    return True


def _path_of(method: bytes, target: bytes, headers: dict[str, str]) -> bytes:
    """The path of a target that names the server too, which must be the one of `Host`."""
    if target == b"*" and method == b"OPTIONS":
        return target
    scheme, colon, rest = target.partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https") or b"#" in target:
        raise Refused(400, "the target is neither a path nor a URL")
    ends = [at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0]
    end = min(ends, default=len(rest))
    authority, path = rest[:end].decode("latin-1"), rest[end:]
    if not authority or "@" in authority:
        raise Refused(400, "the target's host is malformed")
    if headers.get("host", authority).lower() != authority.lower():
        raise Refused(400, "the target names another host than Host")
    return path if path.startswith(b"/") else b"/" + path


def _bad_version(version: bytes) -> Refused:
    if version.startswith(b"HTTP/"):
        return Refused(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
    return Refused(400, "the request line has no version")
