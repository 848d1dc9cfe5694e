"""A body on its way in: taken out of its framing, checked, and handed to the store.

A small one is there with its head and is handled at once, in the loop's thread. A larger one is
gathered into pieces; while one piece is decoded, hashed, written and synced in another thread, the
next one is received. So at most two pieces of a request are in memory, whatever its size.

What may be lost: nothing was promised. A body that breaks off, or is not what was said of it, is
given up, and nothing of it is stored.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import Final, TypeVar

from lakebed.base.layout import Buffer
from lakebed.http.receiving import Reception, Sent, gathered
from lakebed.http.request import Request
from lakebed.s3.auth.chunked import ChunkedDecoder
from lakebed.s3.auth.identity import Identity, PayloadKind
from lakebed.s3.checksums import HEADERS, checksum_of_body
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.s3.service import Service
from lakebed.seglake.body import INLINE_BYTES_MAX
from lakebed.seglake.commits import Change
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


class Incoming:
    """Read once: by `into`, or by `whole`."""

    def __init__(
        self, request: Request, identity: Identity, *, trailer: Algorithm | None = None
    ) -> None:
        """`trailer` is the checksum that follows the body. `MissingContentLength`."""
        payload = identity.payload
        self.length = announced_length(request.headers, is_framed=payload.kind.is_chunked)
        self._body = request.body
        self._trailer = trailer
        self._came_bytes = 0
        self._sha256 = hashlib.sha256() if payload.kind is PayloadKind.SIGNED else None
        self._sha256_given = payload.sha256
        self._decoder: ChunkedDecoder | None = None
        if payload.kind.is_chunked:
            names = () if trailer is None else (HEADERS[trailer],)
            self._decoder = ChunkedDecoder(payload, decoded_length=self.length, trailer_names=names)

    @property
    def is_here(self) -> bool:
        """Whether all of it came along with its head, and is small."""
        whole = self._body.whole
        return whole is not None and len(whole) <= INLINE_BYTES_MAX

    def taken(self) -> tuple[bytes, Checksum | None]:
        """All of one that is here, and the checksum behind it, which is still to be compared."""
        whole = self._body.whole
        assert whole is not None, "it has not come yet"
        decoded = self._decoded(whole)
        data = whole if self._decoder is None else b"".join(decoded)
        checksum = self._check_end()
        self._check_length()
        return data, checksum

    async def into(self, service: Service, put: Put[Result]) -> Result:
        """What it became, durable."""
        if not self.is_here:
            with service.receiving() as reception:
                change = await self._pumped(service, put, reception)
                pending = await service.handed_over(change)
            return await service.done(pending)
        assert self._body.whole is not None
        with put:
            self._take(put, (self._body.whole,))
            change = self._ended(put)
        return await service.commit(change)

    async def whole(self) -> bytes:
        """All of it: only for a length that was looked at before."""
        data = bytearray()
        async for pieces in gathered(self._body):
            for piece in pieces:
                for decoded in self._decoded(piece):
                    data += decoded
        self._check_end()
        self._check_length()
        return bytes(data)

    async def _pumped(
        self, service: Service, put: Put[Result], reception: Reception
    ) -> Change[Result]:
        loop = asyncio.get_running_loop()
        within = copy_context().run  # one at a time, as `at_work` is
        at_work: asyncio.Future[Change[Result] | None] | None = None
        try:
            async for pieces in gathered(self._body, reception):
                if at_work is not None:
                    await asyncio.shield(at_work)
                at_work = loop.run_in_executor(service.executor, within, self._take, put, pieces)
            if at_work is not None:
                await asyncio.shield(at_work)
            at_work = loop.run_in_executor(service.executor, within, self._ended, put)
            change = await asyncio.shield(at_work)
            assert change is not None
            return change
        finally:
            await _leave(put, at_work)

    def _take(self, put: Put[Result], pieces: Sequence[Sent]) -> None:
        for piece in pieces:
            for decoded in self._decoded(piece):
                put.write(decoded)

    def _decoded(self, piece: Sent) -> Sequence[Buffer]:
        """The bytes of the body in a piece of what is sent."""
        decoded: Sequence[Buffer] = (piece,)
        if self._decoder is not None:
            decoded = self._decoder.feed(piece)
        elif self._sha256 is not None:
            self._sha256.update(piece)
        self._came_bytes += sum(map(len, decoded))
        if self._came_bytes > self.length:
            raise BadSize(f"more bytes came than the {self.length} that were announced")
        return decoded

    def _check_length(self) -> None:
        if self._came_bytes != self.length:
            raise BadSize(f"{self._came_bytes} bytes came, {self.length} were announced")

    def _ended(self, put: Put[Result]) -> Change[Result]:
        checksum = self._check_end()
        if checksum is not None:
            put.expect(checksum)
        return put.change()

    def _check_end(self) -> Checksum | None:
        """The checksum that was told behind the body, still to be compared with it."""
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


def can_trail(identity: Identity) -> bool:
    """Whether something can follow the body."""
    return identity.payload.kind in _TRAILED


def announced_length(headers: Mapping[str, str], *, is_framed: bool) -> int:
    """How many bytes the body has, without its framing."""
    name = _DECODED_LENGTH
    value = headers.get(name)
    if value is None and not is_framed:
        name = _LENGTH
        value = headers.get(name)
    if value is None:
        raise S3Error("MissingContentLength", "You must provide the Content-Length HTTP header.")
    if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX):
        raise invalid_argument("A length must be a whole number", name=name, value=value)
    return int(value)


async def _leave(put: Put[Result], at_work: asyncio.Future[Change[Result] | None] | None) -> None:
    """Give up what was not ended, once no other thread is at it."""
    if at_work is not None:
        await asyncio.wait([at_work])
        if not at_work.cancelled():
            at_work.exception()  # looked at, for another one may be told
    put.give_up()
