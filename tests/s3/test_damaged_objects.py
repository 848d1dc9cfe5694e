"""Damaged objects over S3: marked once, without keeping the loop, and never copied."""

from __future__ import annotations

from pathlib import Path

from lakebed.seglake.lake import Lake
from lakebed.seglake.model import State
from tests.http.serving import in_loop, until
from tests.s3.wire import BUCKET, error_code, s3_wire, signed_request
from tests.seglake.damaged_lakes import flip, segment_file
from tests.seglake.stalls import stalled

GET = signed_request("GET", b"/bucket/small")


def damage(root: Path, lake: Lake, key: str) -> None:
    lake.objects.put(BUCKET, key, b"some bytes")
    chunk = lake.objects.get(BUCKET, key)._found.manifest.chunks[0]
    flip(segment_file(root, chunk.segment_id), chunk.offset)


def state(lake: Lake, key: str) -> State:
    return lake.objects.head(BUCKET, key).state


def test_a_damaged_object_is_marked_once_however_often_it_is_read(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, cache_bytes=0) as wire:
            lake = wire.service.lake
            damage(tmp_path, lake, "small")
            with stalled(lake):  # the loop waits for no commit
                for _ in range(5):
                    assert error_code(await wire.ask(GET)) == "InternalError"
                assert lake._barrier._pending_count == 2, "what stalls, and one mark"
            await until(lambda: state(lake, "small") is State.DAMAGED)
            commit_count = lake._upkeep._sink.commit_count
            for _ in range(5):
                assert error_code(await wire.ask(GET)) == "InternalError"
            assert lake._upkeep._sink.commit_count == commit_count

    run()


def test_a_version_that_is_damaged_is_not_copied(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, cache_bytes=0) as wire:
            lake = wire.service.lake
            damage(tmp_path, lake, "small")
            await wire.ask(GET)
            await until(lambda: state(lake, "small") is State.DAMAGED)
            source = {"x-amz-copy-source": "/bucket/small"}
            replaced = {**source, "x-amz-metadata-directive": "REPLACE"}
            for path, headers in ((b"/bucket/copy", source), (b"/bucket/small", replaced)):
                refused = await wire.ask(signed_request("PUT", path, headers=headers))
                assert error_code(refused) == "InternalError"
            assert [row.key for row in lake.objects.list(BUCKET).items] == ["small"]
            assert state(lake, "small") is State.DAMAGED

    run()
