"""Decodes request bodies with `Transfer-Encoding: chunked`.

The decoder is strict: sizes are hexadecimal digits only, and lines end in CR LF. Chunk extensions
and trailers are checked for valid syntax and then discarded; if they are too large, the body is
malformed.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from lakebed.http.limits import Limits
from lakebed.http.request import BadBody

_LINE_BYTES_MAX = 1024
_EXTENSION_BYTES_MAX = 16 * 1024
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class _Expected(Enum):
    SIZE = auto()
    CONTENT = auto()
    CONTENT_END = auto()
    TRAILER = auto()
    NOTHING = auto()


class ChunkedReader:
    """Decodes one chunked body: call `feed` with received bytes until `is_complete` is true."""

    __slots__ = ("_expected", "_extension_bytes", "_left", "_limits", "_line", "_trailer_bytes")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._expected = _Expected.SIZE
        self._left = 0
        self._line = b""  # the received part of an incomplete line
        self._extension_bytes = 0
        self._trailer_bytes = 0

    @property
    def is_complete(self) -> bool:
        return self._expected is _Expected.NOTHING

    def feed(self, data: bytes, pieces: list[bytes]) -> int:
        """Decodes `data`, appends the content to `pieces`, and returns how many bytes it used.

        Bytes after the end of the body are not used. Raises `BadBody` if the body is malformed.
        """
        at, end = 0, len(data)
        while at < end and self._expected is not _Expected.NOTHING:
            if self._expected is _Expected.CONTENT:
                piece = data if not at and self._left >= end else data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._expected = _Expected.CONTENT_END
            else:
                at = self._feed_line(data, at)
        return at

    def _feed_line(self, data: bytes, at: int) -> int:
        newline = data.find(b"\n", at)
        end = len(data) if newline < 0 else newline + 1
        if len(self._line) + end - at > _LINE_BYTES_MAX:
            raise BadBody(f"chunked body: a line is longer than {_LINE_BYTES_MAX} bytes")
        line = self._line + data[at:end]
        if self._expected is _Expected.CONTENT_END and not b"\r\n".startswith(line):
            raise BadBody("chunked body: the data of a chunk is not followed by CR LF")
        if newline < 0:
            self._line = line
            return end
        self._line = b""
        if not line.endswith(b"\r\n"):
            raise BadBody("chunked body: a line does not end in CR LF")
        self._take_line(line[:-2])
        return end

    def _take_line(self, line: bytes) -> None:
        if self._expected is _Expected.SIZE:
            self._take_size(line)
        elif self._expected is _Expected.CONTENT_END:
            self._expected = _Expected.SIZE
        elif line:
            self._take_trailer(line)
        else:
            self._expected = _Expected.NOTHING

    def _take_size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise BadBody("chunked body: a chunk's size line is malformed")
        self._extension_bytes += len(match[2] or b"")
        if self._extension_bytes > _EXTENSION_BYTES_MAX:
            raise BadBody(
                f"chunked body: more than {_EXTENSION_BYTES_MAX} bytes of chunk extensions"
            )
        self._left = int(match[1], 16)
        self._expected = _Expected.CONTENT if self._left else _Expected.TRAILER

    def _take_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line) + 2
        if self._trailer_bytes > self._limits.header_bytes_max:
            raise BadBody(
                f"chunked body: the trailers have more than {self._limits.header_bytes_max} bytes"
            )
        if _TRAILER_LINE.fullmatch(line) is None:
            raise BadBody("chunked body: a trailer line is malformed")
