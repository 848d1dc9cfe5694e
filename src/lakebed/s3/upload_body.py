"""Receives the body of an S3 request: decodes `aws-chunked`, checks it, and stores it.

A small body is received completely before the handler runs, and is decoded in the event loop's
thread. A larger body is received in pieces (`edge.body_pump`), and each piece is decoded in the
thread that stores it; but a document (`UploadBody.whole`) is always decoded in the event loop's
thread.

If a body is incomplete, or does not match its announced length or checksum, no object or part is
stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

from lakebed.base.layout import Buffer
from lakebed.edge.body_pump import Sent
from lakebed.http.request import Request
from lakebed.s3.auth.chunked import ChunkedDecoder
from lakebed.s3.auth.identity import Identity, PayloadKind
from lakebed.s3.checksums import HEADERS, checksum_of_body
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.s3.service import Service
from lakebed.seglake.body import INLINE_BYTES_MAX
from lakebed.seglake.change import Change
from lakebed.seglake.errors import BadSize
from lakebed.seglake.model import Algorithm, Checksum
from lakebed.seglake.objects import Put

_LENGTH: Final = "content-length"
_DECODED_LENGTH: Final = "x-amz-decoded-content-length"
_DIGITS_MAX: Final = 18
_TRAILED: Final = frozenset(
    {PayloadKind.CHUNKS_SIGNED_TRAILER, PayloadKind.CHUNKS_UNSIGNED_TRAILER}
)

Result = TypeVar("Result")


class UploadBody:
    """The body of one S3 request. Call only one of `taken`, `into` and `whole`, and only once."""

    def __init__(
        self,
        request: Request,
        identity: Identity,
        *,
        trailer: Algorithm | None = None,
        is_optional: bool = False,
    ) -> None:
        """`trailer` is the algorithm of the checksum in the body's trailer, or None.

        With `is_optional`, a request without a body need not announce a length. Otherwise raises
        the S3 error `MissingContentLength` if the request does not announce the body's length.
        Raises `InvalidArgument` if the length is not a number.
        """
        payload = identity.payload
        self.length = announced_length(
            request.headers,
            is_framed=payload.kind.is_chunked,
            is_optional=is_optional and request.body.length == 0,
        )
        self._body = request.body
        self._trailer = trailer
        self._received_bytes = 0
        self._sha256 = hashlib.sha256() if payload.kind is PayloadKind.SIGNED else None
        self._sha256_given = payload.sha256
        self._decoder: ChunkedDecoder | None = None
        if payload.kind.is_chunked:
            names = () if trailer is None else (HEADERS[trailer],)
            self._decoder = ChunkedDecoder(payload, decoded_length=self.length, trailer_names=names)

    @property
    def is_here(self) -> bool:
        """Whether the body is small and already received completely, so that `taken` works."""
        whole = self._body.whole
        return whole is not None and len(whole) <= INLINE_BYTES_MAX

    def taken(self) -> tuple[bytes, Checksum | None]:
        """Returns the decoded body, and the checksum in its trailer or None.

        `is_here` must be true. The caller must compare the checksum with the body. Raises `S3Error`
        or `BadSize` if the body is not as announced.
        """
        whole = self._body.whole
        assert whole is not None, "the body has not arrived yet"
        decoded = self.decoded(whole)
        data = whole if self._decoder is None else b"".join(decoded)
        checksum = self.check_end()
        self._check_length()
        return data, checksum

    async def into(self, service: Service, put: Put[Result]) -> Result:
        """Writes the body to `put` and returns the object or part once it is durable.

        If that fails, gives up `put` and raises the error.
        """
        sink = _DecodedPut(self, put)
        if not self.is_here:
            return await service.bodies.store(self._body, sink)
        assert self._body.whole is not None
        with put:
            sink.write(self._body.whole)
            change = sink.change()
        return await service.commit(change)

    async def whole(self) -> bytes:
        """Returns the whole decoded body.

        The caller must first check `length`, to bound the memory. Raises `S3Error` or `BadSize` if
        the body is not as announced.
        """
        data = bytearray()
        async for piece in self._body:
            for decoded in self.decoded(piece):
                data += decoded
        self.check_end()
        self._check_length()
        return bytes(data)

    def decoded(self, piece: Sent) -> Sequence[Buffer]:
        """Decodes a received piece and returns the body's bytes in it.

        Raises `BadSize` if the body becomes longer than announced, and `S3Error` if it is not
        `aws-chunked` as announced.
        """
        decoded: Sequence[Buffer] = (piece,)
        if self._decoder is not None:
            decoded = self._decoder.feed(piece)
        elif self._sha256 is not None:
            self._sha256.update(piece)
        self._received_bytes += sum(map(len, decoded))
        if self._received_bytes > self.length:
            raise BadSize(f"the request body is longer than the announced {self.length} bytes")
        return decoded

    def _check_length(self) -> None:
        if self._received_bytes != self.length:
            raise BadSize(
                f"the request body has {self._received_bytes} bytes, but {self.length} bytes were "
                "announced"
            )

    def check_end(self) -> Checksum | None:
        """Checks the body's SHA-256, or its last chunk and trailers; call it after the last piece.

        Raises `S3Error` if one of them is wrong or missing. Returns the checksum in the trailer,
        which the caller must compare with the body, or None if no such checksum was announced.
        """
        if self._sha256 is not None and self._sha256.hexdigest() != self._sha256_given:
            raise S3Error(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
                details=(
                    ("ClientComputedContentSHA256", self._sha256_given),
                    ("S3ComputedContentSHA256", self._sha256.hexdigest()),
                ),
            )
        trailers: Mapping[str, str] = {} if self._decoder is None else self._decoder.finish()
        if self._trailer is None:
            return None
        value = trailers.get(HEADERS[self._trailer])
        if value is None:
            raise S3Error(
                "MalformedTrailerError",
                "The request contained trailing data that was not well-formed or did not conform "
                "to our published schema.",
            )
        return checksum_of_body(self._trailer, value)


class _DecodedPut(Generic[Result]):
    """Decodes each received piece of a body and writes it to a `Put`.

    Calls may come from any thread, one at a time.
    """

    def __init__(self, incoming: UploadBody, put: Put[Result]) -> None:
        self._incoming = incoming
        self._put = put
        self.give_up = put.give_up

    def write(self, data: Sent) -> None:
        for decoded in self._incoming.decoded(data):
            self._put.write(decoded)

    def change(self) -> Change[Result]:
        checksum = self._incoming.check_end()
        if checksum is not None:
            self._put.expect(checksum)
        return self._put.change()


def can_trail(identity: Identity) -> bool:
    """Whether the request's body is sent in a form that can have trailers."""
    return identity.payload.kind in _TRAILED


def announced_length(headers: Mapping[str, str], *, is_framed: bool, is_optional: bool) -> int:
    """Returns the announced length of the decoded body.

    `is_framed` is whether the body is `aws-chunked`. If it is, `Content-Length` includes the chunk
    headers and is not used. If the length is missing, returns 0 with `is_optional`, and otherwise
    raises `S3Error`. Also raises `S3Error` if the length is not a number.
    """
    name = _DECODED_LENGTH
    value = headers.get(name)
    if value is None and not is_framed:
        name = _LENGTH
        value = headers.get(name)
    if value is None and is_optional:
        return 0
    if value is None:
        missing = "X-Amz-Decoded-Content-Length" if is_framed else "Content-Length"
        raise S3Error("MissingContentLength", f"You must provide the {missing} HTTP header.")
    if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX):
        raise invalid_argument(
            "The length of a body must be a whole number", name=name, value=value
        )
    return int(value)
