"""A request is in flight until its client has the answer, or is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.units import MIB
from tests.http.serving import in_loop, until
from tests.s3.wire import BUCKET, error_code, s3_wire, signed_request

LARGE_BYTES = 24 * MIB


@pytest.mark.parametrize("goes_away", [False, True])
def test_a_place_is_held_until_the_object_is_sent(goes_away: bool, tmp_path: Path) -> None:
    listing = signed_request("GET", b"/bucket")

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, inflight_max=1) as wire:
            wire.service.lake.objects.put(BUCKET, "large", bytes(LARGE_BYTES))
            assert (await wire.ask(listing)).status == 200
            slow = await wire.served.connect_slowly(buffer_bytes=4096)
            slow.send_bytes(signed_request("GET", b"/bucket/large"))
            await slow.reader.readuntil(b"\r\n\r\n")
            answer = await wire.ask(listing)
            assert (answer.status, error_code(answer)) == (503, "SlowDown")
            if goes_away:
                slow.reset()
                await until(lambda: not wire.served.server._tasks)
            else:
                await slow.reader.readexactly(LARGE_BYTES)
            assert (await wire.ask(listing)).status == 200

    run()
