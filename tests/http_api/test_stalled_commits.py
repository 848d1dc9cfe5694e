"""A commit that does not end: requests that wait for it, or for its queue, hold no thread."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from lakebed.api.objects import DeleteMany, ObjectDeletion
from lakebed.base.units import KIB, MIB
from lakebed.http_api.app import HANDLERS
from lakebed.seglake.config import SeglakeConfig
from tests.http.serving import in_loop, until
from tests.http_api.handling import handling
from tests.seglake.stalls import fill, stalled

BUCKET = "photos"
CLIENTS = 12  # three for each thread of the executor
LARGE = bytes(300 * KIB)
HANGS_S = 5
QUEUE = SeglakeConfig(sync_bytes=4 * MIB, reserve_bytes=0)


def test_many_that_wait_for_room_in_the_queue_keep_no_other_from_being_answered(
    tmp_path: Path,
) -> None:
    deletion = msgspec.json.encode(DeleteMany([ObjectDeletion("a"), ObjectDeletion("b")]))

    @in_loop
    async def run() -> None:
        async with handling(tmp_path, HANDLERS, object_config=QUEUE) as live_api:
            service = live_api.service
            lake = await service.lake()
            lake.buckets.create(BUCKET)
            lake.objects.put(BUCKET, "large", LARGE)
            clients = [await live_api.served.connect() for _ in range(CLIENTS + 1)]
            with stalled(lake):
                full = [asyncio.ensure_future(service.done(one)) for one in fill(lake, BUCKET)]
                for number, client in enumerate(clients[:-1]):
                    if number % 2:
                        client.put(f"/v1/buckets/{BUCKET}/objects/{number}", LARGE)
                    else:
                        length = f"Content-Length: {len(deletion)}"
                        target = f"POST /v1/buckets/{BUCKET}/delete HTTP/1.1"
                        client.send(target, "Host: here", length, body=deletion)
                answers = [asyncio.ensure_future(client.answer()) for client in clients[:-1]]
                await until(lambda: service.awaited_count == len(full) + CLIENTS)
                clients[-1].get(f"/v1/buckets/{BUCKET}/objects/large")
                got = await asyncio.wait_for(clients[-1].answer(), HANGS_S)
                assert (got.status, got.body) == (200, LARGE)
                assert not any(one.done() for one in answers)
            for answer in await asyncio.gather(*answers):
                assert answer.status == 200, answer
            await asyncio.gather(*full)
            assert service.awaited_count == 0

    run()
