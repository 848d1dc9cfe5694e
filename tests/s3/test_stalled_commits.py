"""A commit that does not end: whoever waits for it keeps nobody else from being answered.

The stall is a transaction that waits for the test, so that all behind it queue up.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lakebed.base.units import MIB
from lakebed.s3.router import VERBS
from tests.http.serving import Answer, in_loop, until
from tests.s3.calls import NAMESPACE
from tests.s3.changing_requests import CHANGING, LARGE, LARGE_BYTES
from tests.s3.wire import BUCKET, Wire, error_code, s3_wire, signed_request
from tests.seglake.stalls import fill, stalled

CLIENTS = 12  # three for each thread of the executor
QUEUE_BYTES = 4 * MIB
WAITING = ("PutObject, streamed", "UploadPart, streamed", "UploadPartCopy", "DeleteObjects")
REFUSED = sorted(CHANGING.keys() - set(WAITING))


async def check_others_are_answered(wire: Wire) -> None:
    """In the loop's thread and in the executor's."""
    for _ in range(2):
        got = await wire.ask(signed_request("GET", b"/bucket/" + LARGE))
        assert (got.status, got.body) == (200, bytes(LARGE_BYTES))
        assert (await wire.ask(signed_request("HEAD", b"/bucket/" + LARGE))).status == 200
        listed = await wire.ask(signed_request("GET", b"/bucket"))
        assert [key.text for key in ET.fromstring(listed.body).iter(f"{NAMESPACE}Key")]  # noqa: S314


def asked(wire: Wire, verb: str) -> list[asyncio.Future[Answer]]:
    """By many clients at once."""
    lake = wire.service.lake
    lake.objects.put(BUCKET, LARGE.decode(), bytes(LARGE_BYTES))
    requests = [CHANGING[verb](lake, number) for number in range(CLIENTS)]
    return [asyncio.ensure_future(wire.ask(data)) for data in requests]


def check_all_succeeded(answers: list[Answer]) -> None:
    for answer in answers:
        assert answer.status in (200, 204), answer
        assert b"<Error>" not in answer.body, answer


def test_every_verb_that_changes_something_is_tried_here() -> None:
    tried = {name.partition(",")[0] for name in CHANGING}
    assert tried == {verb.operation.__name__ for verb in VERBS if verb.writes}


@pytest.mark.thorough
@pytest.mark.parametrize("verb", CHANGING)
def test_many_that_wait_for_a_stalled_commit_keep_no_other_from_being_answered(
    verb: str, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            barrier = wire.service.lake._barrier
            waiting = asked(wire, verb)
            with stalled(wire.service.lake):
                await until(lambda: barrier._pending_count > CLIENTS)
                await check_others_are_answered(wire)
                assert not any(one.done() for one in waiting)
            check_all_succeeded(await asyncio.gather(*waiting))
            assert wire.service.awaited_count == 0

    run()


@pytest.mark.thorough
@pytest.mark.parametrize("verb", REFUSED)
def test_more_than_can_wait_are_told_to_slow_down(verb: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, sync_bytes=QUEUE_BYTES) as wire:
            refused = asked(wire, verb)
            with stalled(wire.service.lake):
                fill(wire.service.lake, BUCKET)
                for answer in await asyncio.gather(*refused):
                    assert (answer.status, error_code(answer)) == (503, "SlowDown")
                await check_others_are_answered(wire)
            again = asked(wire, verb)
            check_all_succeeded(await asyncio.gather(*again))

    run()


@pytest.mark.thorough
@pytest.mark.parametrize("verb", WAITING)
def test_what_took_long_to_come_waits_for_its_place_in_the_queue(verb: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, sync_bytes=QUEUE_BYTES) as wire:
            service = wire.service
            waiting = asked(wire, verb)
            with stalled(service.lake):
                full = [
                    asyncio.ensure_future(service.done(one)) for one in fill(service.lake, BUCKET)
                ]
                all_count = len(full) + CLIENTS
                await until(lambda: service.awaited_count == all_count)
                await check_others_are_answered(wire)
                assert not any(one.done() for one in waiting)
            check_all_succeeded(await asyncio.gather(*waiting))
            await asyncio.gather(*full)
            assert service.awaited_count == 0

    run()


@pytest.mark.parametrize("verb", ["PutObject, streamed", "UploadPartCopy"])
def test_what_took_long_is_refused_only_if_others_fill_the_queue(verb: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, sync_bytes=QUEUE_BYTES) as wire:
            refused = asked(wire, verb)
            with stalled(wire.service.lake):
                fill(wire.service.lake, BUCKET)
                for answer in await asyncio.gather(*refused):
                    assert (answer.status, error_code(answer)) == (503, "SlowDown")

    run()


def test_each_of_many_deletions_that_found_no_place_is_told(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, sync_bytes=QUEUE_BYTES) as wire:
            refused = asked(wire, "DeleteObjects")
            with stalled(wire.service.lake):
                fill(wire.service.lake, BUCKET)
                for answer in await asyncio.gather(*refused):
                    codes = ET.fromstring(answer.body).iter(f"{NAMESPACE}Code")  # noqa: S314
                    assert [code.text for code in codes] == ["SlowDown", "SlowDown"]

    run()


def test_what_was_handed_over_is_waited_for_by_what_finds_no_place(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, sync_bytes=QUEUE_BYTES) as wire:
            service, objects = wire.service, wire.service.lake.objects
            changes = [objects.small_put(BUCKET, f"{number}", bytes(MIB)) for number in range(6)]
            with stalled(service.lake):
                handing = asyncio.gather(*map(service.handed_over, changes))
                await until(lambda: service.awaited_count == 3)
                assert not handing.done()
            for pending in await handing:
                assert (await service.done(pending)).size == MIB
            assert service.awaited_count == 0

    run()
