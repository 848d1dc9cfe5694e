"""What a wire waits for without holding its loop: threads, commits, and room in their queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from lakebed.base.commit import Barrier, CommitConfig, Linger
from lakebed.base.errors import Busy, Closed
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import MIB
from lakebed.edge.worker import Worker
from lakebed.seglake.change import Change
from lakebed.seglake.lake import Lake
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import Chunk, ObjectInfo
from tests.http.serving import in_loop, until
from tests.seglake.lakes import BUCKET, open_lake
from tests.seglake.stalls import fill, stalled

HANGS_S = 5


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Whose queue of writes has room for three bodies of a MiB."""
    with open_lake(tmp_path, sync_bytes=4 * MIB) as lake:
        lake.buckets.create(BUCKET)
        yield lake


@pytest.fixture
def worker() -> Iterator[Worker]:
    """With one thread."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        yield Worker(executor)


def large_put(lake: Lake, number: int) -> Change[ObjectInfo]:
    return lake.objects.small_put(BUCKET, f"{number}", bytes(MIB))


def test_the_loop_is_woken_once_for_all_of_a_batch(lake: Lake, worker: Worker) -> None:
    async def run() -> list[str]:
        changes = [lake.objects.small_put(BUCKET, f"{number}", b"data") for number in range(20)]
        found = await asyncio.gather(*map(worker.commit, changes))
        return [info.key for info in found]

    assert asyncio.run(run()) == [f"{number}" for number in range(20)]
    assert worker.awaited_count == 0


class Applied:
    """A sink that applies changes to no metadata."""

    def commit(self, items: Sequence[Change[Any]]) -> list[Any]:
        return [item.apply(cast("Writer", None), ()) for item in items]


@in_loop
async def test_a_commit_does_not_wait_for_the_timer_of_changes_that_no_caller_waits_for(
    worker: Worker,
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hold(_writer: Writer, _chunks: tuple[Chunk, ...]) -> None:
        begun.set()
        may_end.wait()

    with ThreadRunner() as runner, ThreadPoolExecutor(max_workers=2) as threads:
        barrier: Barrier[Change[Any], Any] = Barrier(
            Applied(),
            name="changes",
            runner=runner,
            wake=lambda: committing.wake(),
            config=CommitConfig(delay_ms_max=60_000),
            linger=Linger(delay_ms_max=0),
        )
        committing = runner.spawn("commit", barrier.step)
        leading = threads.submit(Change(barrier, hold).run)
        await asyncio.to_thread(begun.wait)
        Change(barrier, lambda *_: "unawaited").submit()
        await until(lambda: barrier._is_timed)
        following = threads.submit(Change(barrier, lambda *_: "following").run)
        await until(lambda: barrier._queue[0].has_heir)
        may_end.set()
        await asyncio.to_thread(lambda: (leading.result(), following.result()))
        change = Change(barrier, lambda *_: "awaited")
        assert await asyncio.wait_for(worker.commit(change), HANGS_S) == "awaited"


@in_loop
async def test_room_in_the_queue_is_awaited_without_a_thread(lake: Lake, worker: Worker) -> None:
    with stalled(lake):
        handing = asyncio.gather(
            *(worker.handed_over(large_put(lake, number)) for number in range(6))
        )
        await until(lambda: worker.awaited_count == 3)
        assert await asyncio.wait_for(worker.run(lambda: "answered"), HANGS_S) == "answered"
        assert not handing.done()
    for pending in await handing:
        assert (await worker.done(pending)).size == MIB
    assert worker.awaited_count == 0


@in_loop
async def test_a_queue_that_others_fill_is_told_at_once(lake: Lake, worker: Worker) -> None:
    with stalled(lake):
        others = fill(lake, BUCKET)
        with pytest.raises(Busy):
            await worker.handed_over(large_put(lake, 0))
        with pytest.raises(Busy):
            await worker.commit(large_put(lake, 0))
    assert len([await worker.done(one) for one in others[:3]]) == 3


@in_loop
async def test_work_after_the_threads_have_ended_is_refused_as_closed(worker: Worker) -> None:
    worker.executor.shutdown()
    with pytest.raises(Closed):
        await worker.run(lambda: None)
    assert worker.call_count == 0
