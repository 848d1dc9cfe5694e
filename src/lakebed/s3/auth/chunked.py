"""Decodes `aws-chunked` bodies, and checks chunk signatures if the body has them.

    body    := chunk* last trailer*
    chunk   := length-in-hex [";chunk-signature=" signature] CRLF data CRLF
    last    := "0" [";chunk-signature=" signature] CRLF
    trailer := name ":" value CRLF                 the last being x-amz-trailer-signature, if signed

Each chunk signature also covers the signature of the previous chunk, and the first covers that of
the request. `feed` returns bytes before the signature of their chunk is checked, so the caller must
not commit them before `finish` returns. `finish` also checks the length and the trailers.

Because clients differ, trailer lines may end in LF or CR LF, the last line may have no end, values
may have blanks around them, and there may be empty lines before, between and after the trailers.
Any other deviation from the grammar is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import Enum, auto
from hashlib import sha256
from hmac import compare_digest

from lakebed.s3.auth import sigv4
from lakebed.s3.auth.identity import Payload, PayloadKind
from lakebed.s3.errors import S3Error

HEADER_BYTES_MAX = 256
TRAILER_BYTES_MAX = 8 * 1024
CHUNK_BYTES_MIN = 8 * 1024  # of a signed chunk, except the last one with data

_SIGNED = (PayloadKind.CHUNKS_SIGNED, PayloadKind.CHUNKS_SIGNED_TRAILER)
_WITH_TRAILER = (PayloadKind.CHUNKS_SIGNED_TRAILER, PayloadKind.CHUNKS_UNSIGNED_TRAILER)
_PLAIN_HEADER = re.compile(rb"([0-9a-fA-F]{1,15})")
_SIGNED_HEADER = re.compile(rb"([0-9a-fA-F]{1,15});chunk-signature=([0-9a-f]{64})")
_TRAILER = re.compile(r"([!-9;-~]+):[ \t]*([\t -~]*?)[ \t]*")
_TRAILER_SIGNATURE = "x-amz-trailer-signature"
_EMPTY_SHA256 = sha256().hexdigest()
_CRLF = b"\r\n"


class _Part(Enum):
    HEADER = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILERS = auto()
    BROKEN = auto()


class ChunkedDecoder:
    """Decodes one `aws-chunked` body: call `feed` with each piece in order, then `finish`.

    Not thread-safe.
    """

    def __init__(
        self,
        payload: Payload,
        *,
        decoded_length: int | None,
        trailer_names: Collection[str] = (),
    ) -> None:
        """`trailer_names` are the names of the announced trailers, in upper or lower case.

        `decoded_length` is the announced length of the data; None means that it is not checked.
        Raises `S3Error` if trailers were announced but the kind of `payload` has none.
        """
        assert payload.kind.is_chunked, "not a chunked body"
        self._payload = payload
        self._is_signed = payload.kind in _SIGNED
        self._header = _SIGNED_HEADER if self._is_signed else _PLAIN_HEADER
        self._names = frozenset(name.strip().lower() for name in trailer_names)
        if self._names and payload.kind not in _WITH_TRAILER:
            raise S3Error(
                "InvalidRequest",
                f"Trailers were announced, but a body of type {payload.kind.value} has none.",
            )
        self._length = decoded_length
        self._decoded = 0  # data bytes of all chunks whose headers were read
        self._part = _Part.HEADER
        self._pending = bytearray()  # incomplete header, chunk end or trailers
        self._left = 0  # data bytes of the chunk that are still to come
        self._is_short = False  # whether the chunk must be the last one with data
        self._sha256 = sha256()
        self._claimed = b""  # the signature in the chunk's header
        self._previous = payload.seed_signature

    def feed(self, data: bytes | bytearray) -> list[memoryview]:
        """Decodes a piece and returns its data bytes as views of the piece.

        Raises `S3Error` if the body is malformed or too long, or a chunk's signature is wrong;
        after that the decoder cannot be used.
        """
        try:
            return self._decode(data)
        except S3Error:
            self._part = _Part.BROKEN
            raise

    def _decode(self, data: bytes | bytearray) -> list[memoryview]:
        pieces: list[memoryview] = []
        view = memoryview(data)
        position, end = 0, len(data)
        while position < end:
            if self._part is _Part.DATA:
                piece = view[position : position + self._left]
                position += len(piece)
                self._take_data(piece)
                pieces.append(piece)
            elif self._part is _Part.HEADER:
                position = self._take_header(data, position)
            elif self._part is _Part.DATA_END:
                position = self._take_data_end(data, position)
            elif self._part is _Part.TRAILERS:
                self._take_trailers(view[position:])
                position = end
            else:
                raise _malformed("an earlier part of the body was malformed")
        return pieces

    def finish(self) -> Mapping[str, str]:
        """Checks that the body is complete and returns the trailers by lower-case name.

        The result does not contain `x-amz-trailer-signature`, which is checked here. Raises
        `S3Error` if a check fails, or if the trailers are not those that were announced.
        """
        if self._part is not _Part.TRAILERS:
            raise _incomplete("The request body terminated unexpectedly")
        if self._length is not None and self._decoded != self._length:
            raise _incomplete(
                "You did not provide the number of bytes specified by the "
                "x-amz-decoded-content-length HTTP header"
            )
        trailers = self._parsed_trailers()
        if self._payload.kind is PayloadKind.CHUNKS_SIGNED_TRAILER:
            given = trailers.pop(_TRAILER_SIGNATURE, "")
            text = "".join([f"{name}:{value}\n" for name, value in trailers.items()])
            self._check(self._trailer_signature(text), given.encode())
        if trailers.keys() != self._names:
            raise _malformed_trailer()
        return trailers

    # The parts of a body.

    def _take_header(self, data: bytes | bytearray, position: int) -> int:
        """Reads a chunk header and returns the position after it.

        If `data` ends within the header, keeps the first part and returns the end of `data`.
        """
        pending = self._pending
        if pending:
            # Rare: the previous piece ended within the header.
            taken = data[position : position + HEADER_BYTES_MAX]
            line: bytes | bytearray = pending + taken
            start, first = len(pending), 0
        else:
            line, start, first = data, 0, position
        stop = line.find(_CRLF, first, first + HEADER_BYTES_MAX)
        if stop < 0:
            available = len(data) - position
            if available + start >= HEADER_BYTES_MAX:
                raise _malformed("the header of a chunk is too long")
            pending += data[position:]
            return len(data)
        match = self._header.fullmatch(line, first, stop)
        if match is None:
            raise _malformed("the header of a chunk is malformed")
        self._begin(int(match[1], 16), match[2] if self._is_signed else b"")
        after = stop + len(_CRLF)
        if not pending:
            return after
        pending.clear()
        return position + after - start

    def _begin(self, size: int, claimed: bytes) -> None:
        """Prepares to read the data of a chunk of `size` bytes; size 0 ends the chunks."""
        self._claimed = claimed
        if size == 0:
            self._end_chunk()
            self._part = _Part.TRAILERS
            return
        if self._is_short:
            raise S3Error(
                "InvalidChunkSizeError",
                f"Only the last chunk is allowed to have a size less than {CHUNK_BYTES_MIN} bytes",
            )
        self._decoded += size
        if self._length is not None and self._decoded > self._length:
            raise _incomplete(
                "You provided more bytes than specified by the "
                "x-amz-decoded-content-length HTTP header"
            )
        self._is_short = self._is_signed and size < CHUNK_BYTES_MIN
        self._left = size
        self._part = _Part.DATA

    def _take_data(self, piece: memoryview) -> None:
        if self._is_signed:
            self._sha256.update(piece)
        self._left -= len(piece)
        if not self._left:
            self._end_chunk()
            self._part = _Part.DATA_END

    def _end_chunk(self) -> None:
        if not self._is_signed:
            return
        payload = self._payload
        text = (
            f"AWS4-HMAC-SHA256-PAYLOAD\n{payload.date}\n{payload.scope}\n{self._previous}\n"
            f"{_EMPTY_SHA256}\n{self._sha256.hexdigest()}"
        )
        self._sha256 = sha256()
        self._check(sigv4.signature(payload.signing_key, text), self._claimed)

    def _take_data_end(self, data: bytes | bytearray, position: int) -> int:
        stop = position + len(_CRLF) - len(self._pending)
        self._pending += data[position:stop]
        if not _CRLF.startswith(self._pending):
            raise _malformed("the data of a chunk is not followed by CR LF")
        if len(self._pending) == len(_CRLF):
            self._pending.clear()
            self._part = _Part.HEADER
        return min(stop, len(data))

    def _take_trailers(self, piece: memoryview) -> None:
        if len(self._pending) + len(piece) > TRAILER_BYTES_MAX:
            raise _malformed_trailer()
        self._pending += piece

    # Checks.

    def _parsed_trailers(self) -> dict[str, str]:
        trailers: dict[str, str] = {}
        for line in self._pending.decode("latin-1").split("\n"):
            line = line.removesuffix("\r")
            if not line:
                continue
            match = _TRAILER.fullmatch(line)
            name = "" if match is None else match[1].lower()
            # No trailer may follow the signature, because the signature would not cover it.
            if match is None or name in trailers or _TRAILER_SIGNATURE in trailers:
                raise _malformed_trailer()
            trailers[name] = match[2]
        return trailers

    def _trailer_signature(self, text: str) -> str:
        payload = self._payload
        return sigv4.signature(
            payload.signing_key,
            f"AWS4-HMAC-SHA256-TRAILER\n{payload.date}\n{payload.scope}\n{self._previous}\n"
            f"{sha256(text.encode()).hexdigest()}",
        )

    def _check(self, expected: str, given: bytes) -> None:
        if not compare_digest(expected.encode(), given):
            raise S3Error(
                "SignatureDoesNotMatch",
                "The chunk signature we calculated does not match the signature you provided. "
                "Check your key and signing method.",
            )
        self._previous = expected


def _incomplete(message: str) -> S3Error:
    return S3Error("IncompleteBody", message)


def _malformed(what: str) -> S3Error:
    return S3Error("InvalidRequest", f"The body is not aws-chunked as announced: {what}.")


def _malformed_trailer() -> S3Error:
    return S3Error(
        "MalformedTrailerError",
        "The request contained trailing data that was not well-formed or did not conform to our "
        "published schema.",
    )
