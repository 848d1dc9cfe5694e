"""Ranges of bytes as they are stored, sent in pieces: of a file that is held open, or an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from lakebed.aof.tiers.ranges import FileSource, RangeSource
from lakebed.api import media
from lakebed.base.files import File
from lakebed.base.units import MIB
from lakebed.edge.read_ahead import Read, read_ahead
from lakebed.http.response import FileSlice, Response
from lakebed.http_api.call import Call
from lakebed.http_api.service import Service
from lakebed.seglake.errors import BadRange

PIECE_BYTES: Final = 1 * MIB


class StoredRange(NamedTuple):
    """Bytes that are held, up to `size`; `descriptor` if they can be sent from a file."""

    source: RangeSource
    size: int
    headers: list[tuple[str, str]]
    descriptor: int | None = None
    check_end: Callable[[], None] = lambda: None  # before the last piece: all were of one object

    def pieces(self, start: int, end: int) -> Iterator[Read]:
        """Read, also if they are sent from the file: the loop must not wait for the disk."""
        for offset in range(start, end, PIECE_BYTES):
            length = min(PIECE_BYTES, end - offset)
            data = self.source.read_range(offset, length)
            if offset + length == end:
                self.check_end()
            if self.descriptor is None:
                yield data
            else:
                yield FileSlice(self.descriptor, offset, length)


def stored_file(file: File, size: int, headers: list[tuple[str, str]]) -> StoredRange:
    return StoredRange(FileSource(file), size, headers, file.descriptor())


async def answer_range(
    service: Service,
    call: Call,
    opening: Callable[[], StoredRange],
    offset: int,
    length: int | None,
) -> Response:
    """At the end of what there is, nothing; behind it, an error."""
    stored = await service.run(opening)
    if offset > stored.size:
        stored.source.close()
        raise BadRange(f"byte {offset} is behind the {stored.size} there are", size=stored.size)
    end = stored.size if length is None else min(stored.size, offset + length)
    if call.request.is_secure:
        stored = stored._replace(descriptor=None)
    body = await read_ahead(service, stored.pieces(offset, end), stored.source.close)
    headers = [("Content-Type", media.BYTES), ("Lakebed-Size", str(stored.size)), *stored.headers]
    return Response(200, headers, body, length=end - offset)
