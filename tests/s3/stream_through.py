"""A process that streams a large object through the verbs, and tells how its memory grew.

python -m tests.s3.stream_through ROOT
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import sys
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

from lakebed.base.units import KIB, MIB
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import PayloadKind
from lakebed.s3.service import Service
from lakebed.s3.verbs.object_get import GetObject, get_object
from lakebed.s3.verbs.object_put import PutObject, put_object
from tests.s3.calls import GivenBody, bytes_of, identity, open_service, request
from tests.seglake.lakes import BUCKET, body

SIZE = 200 * MIB
WARM = 12 * MIB
_BLOCK = body(256 * KIB)


class MadeBody(GivenBody):
    """Made as it is read, and never all there."""

    def __init__(self, size: int) -> None:
        super().__init__([], is_whole=False, length=size)
        self._bytes_left = size

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        piece = _BLOCK[: self._bytes_left]
        self._bytes_left -= len(piece)
        return piece[:1] + piece[1:]  # another one each time

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self.read():
            yield piece


def sha256_of(size: int) -> str:
    digest = hashlib.sha256()
    while size:
        digest.update(_BLOCK[:size])
        size -= min(size, len(_BLOCK))
    return digest.hexdigest()


def put_request(size: int) -> Request:
    return request("PUT", body=MadeBody(size))


async def put(service: Service, size: int) -> None:
    who = identity(PayloadKind.SIGNED, sha256=sha256_of(size))
    await put_object(service, PutObject(bucket=BUCKET, key="key"), put_request(size), who)


async def get(service: Service, size: int) -> None:
    response = get_object(service, GetObject(bucket=BUCKET, key="key"), request("GET"), identity())
    assert not isinstance(response, Response)
    answer = await response
    assert isinstance(answer.body, AsyncIterable)
    digest = hashlib.sha256()
    async for piece in answer.body:
        digest.update(bytes_of(piece))
    assert digest.hexdigest() == sha256_of(size)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


async def main(service: Service) -> None:
    await put(service, WARM)
    await get(service, WARM)
    before = peak_bytes()
    await put(service, SIZE)
    after_put = peak_bytes()
    await get(service, SIZE)
    print(json.dumps({"put": after_put - before, "get": peak_bytes() - after_put}))


if __name__ == "__main__":
    with open_service(Path(sys.argv[1]), cache_bytes=0) as opened:
        opened.lake.buckets.create(BUCKET)
        asyncio.run(main(opened))
