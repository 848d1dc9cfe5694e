"""Sends ranges of stored bytes in pieces, from an open file or an object."""

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
    """An open source, of which `size` bytes can be read; `headers` are sent with them.

    `descriptor` is the open file's descriptor if sendfile can send the bytes, else None.
    """

    source: RangeSource
    size: int
    headers: list[tuple[str, str]]
    descriptor: int | None = None
    check_end: Callable[[], None] = lambda: None  # called before the last piece

    def pieces(self, start: int, end: int) -> Iterator[Read]:
        """Yields the bytes `[start, end)` in pieces.

        A piece that is sent with sendfile is first read into the page cache here, so that the event
        loop does not wait for the disk.
        """
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
    """Responds with up to `length` bytes of a source from `offset` on, or with all if `length` is
    None.

    `opening` opens the source. At the end of the source the response has no bytes. Raises
    `BadRange` if `offset` is after the end.
    """
    stored = await service.run(opening)
    if offset > stored.size:
        stored.source.close()
        raise BadRange(f"offset {offset} is after the end ({stored.size} bytes)", size=stored.size)
    end = stored.size if length is None else min(stored.size, offset + length)
    if call.request.is_secure:
        stored = stored._replace(descriptor=None)
    body = await read_ahead(service, stored.pieces(offset, end), stored.source.close)
    headers = [("Content-Type", media.BYTES), ("Lakebed-Size", str(stored.size)), *stored.headers]
    return Response(200, headers, body, length=end - offset)
