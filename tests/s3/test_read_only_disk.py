"""S3 on a file system that goes read-only: reads are answered, writes fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.world import World
from tests.http.serving import in_loop
from tests.s3.bodies import md5_of
from tests.s3.wire import error_code, s3_wire, signed_request

LARGE = bytes(200_000)


def test_objects_are_read_after_writes_failed_on_a_read_only_file_system(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = World(1).disk
    databases = SimulatedDatabases(disk)

    @in_loop
    async def run() -> None:
        simulated: dict[str, Any] = {"disk": disk, "connector": databases.connect}
        async with s3_wire(Path("/store"), cache_bytes=0, **simulated) as wire:
            objects = wire.service.lake.objects
            objects.put("bucket", "small", b"some bytes")
            objects.put("bucket", "large", LARGE)
            disk.faults.read_only = True
            for _ in range(2):
                for method, body in (("PUT", b"new"), ("PUT", LARGE), ("DELETE", b"")):
                    refused = await wire.ask(signed_request(method, b"/bucket/small", body=body))
                    assert error_code(refused) == "InternalError"
                caplog.clear()
                body = b"<Delete><Object><Key>small</Key></Object></Delete>"
                many = await wire.ask(
                    signed_request(
                        "POST",
                        b"/bucket",
                        query=[(b"delete", b"")],
                        headers={"content-md5": md5_of(body)},
                        body=body,
                    )
                )
                assert (many.status, b"<Code>InternalError</Code>" in many.body) == (200, True)
                assert [line.partition(" ")[0] for line in caplog.messages] == ["request_failed"]
                for path, body in ((b"/bucket/small", b"some bytes"), (b"/bucket/large", LARGE)):
                    got = await wire.ask(signed_request("GET", path))
                    assert (got.status, got.body) == (200, body)
                assert (await wire.ask(signed_request("HEAD", b"/bucket/small"))).status == 200
                listed = await wire.ask(signed_request("GET", b"/bucket"))
                assert (listed.status, b"<Key>large</Key>" in listed.body) == (200, True)
            disk.faults.read_only = False
            put = await wire.ask(signed_request("PUT", b"/bucket/small", body=b"new"))
            assert put.status == 200

    try:
        run()
    finally:
        databases.close()
