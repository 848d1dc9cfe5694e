"""What the verbs share: batches that are waited for."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.s3.service import Service
from tests.seglake.lakes import BUCKET


@pytest.mark.usefixtures("bucket")
def test_the_loop_is_woken_once_for_all_of_a_batch(service: Service) -> None:
    objects = service.lake.objects

    async def run() -> list[str]:
        changes = [objects.small_put(BUCKET, f"{number}", b"data") for number in range(20)]
        found = await asyncio.gather(*map(service.commit, changes))
        return [info.key for info in found]

    assert asyncio.run(run()) == [f"{number}" for number in range(20)]
    assert service.completions.count == 0
