"""Real threads, real processes, a real disk: nothing is lost, nobody waits for ever."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.base.errors import Closed
from lakebed.base.units import KIB, MIB

pytestmark = pytest.mark.process

CONFIG = AofConfig(
    segment_bytes=256 * KIB,
    flush=FlushConfig(
        reserve_bytes=0, flush_bytes=64 * KIB, max_unflushed_bytes=256 * KIB, flush_ms=2
    ),
)
RECORD_COUNT = 20_000
OTHER_PROCESS = """
    import sys
    from lakebed.aof.follower import Follower
    from lakebed.aof.read_only import ReadOnlyLog
    from lakebed.base.runner import ThreadRunner
    from lakebed.kernels.disk import real_disk

    root, count = sys.argv[1], int(sys.argv[2])
    with ThreadRunner() as runner:
        log = ReadOnlyLog(root, "orders", disk=real_disk(), runner=runner)
        expected = 0
        for record in Follower(log):
            assert record.ext_id == expected, (record.ext_id, expected)
            assert record.payload.startswith(b"%d " % expected)
            expected += 1
            if expected == count:
                break
        print(expected)
"""


def _payload(number: int) -> bytes:
    return b"%d " % number * (1 + number % 40)


def _flush(log: Aof, stop: threading.Event) -> None:
    while not stop.is_set():
        log.flush(timeout=30)


def _follow(log: Aof, seen: list[int]) -> None:
    with log.follow() as follower:
        for record in follower:
            seen.append(record.ext_id)
            if len(seen) == RECORD_COUNT:
                return


@pytest.mark.timeout(240)
def test_a_writer_flushers_rollovers_and_eight_followers_in_three_processes(
    tmp_path: Path,
) -> None:
    with AofManager(tmp_path, config=CONFIG) as manager:
        log = manager.open("orders")
        log.append_record(_payload(0), ext_id=0)
        log.flush()
        others = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(OTHER_PROCESS), str(tmp_path),
                 str(RECORD_COUNT)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]  # fmt: skip
        seen: list[list[int]] = [[] for _ in range(6)]
        followers = [threading.Thread(target=_follow, args=(log, one), daemon=True) for one in seen]
        stop = threading.Event()
        flushers = [
            threading.Thread(target=_flush, args=(log, stop), daemon=True) for _ in range(2)
        ]
        for thread in (*followers, *flushers):
            thread.start()
        for number in range(1, RECORD_COUNT):
            log.append_record_with_timeout(_payload(number), 30, ext_id=number)
        log.flush()
        stop.set()
        for thread in (*followers, *flushers):
            thread.join(100)
            assert not thread.is_alive(), "somebody was never woken"
        for one in seen:
            assert one == list(range(RECORD_COUNT))
        for process in others:
            output, _ = process.communicate(timeout=100)
            assert output == f"{RECORD_COUNT}\n"
        assert len(log.segments()) > 5


def test_closing_wakes_everybody_who_waits(tmp_path: Path) -> None:
    manager = AofManager(tmp_path, config=CONFIG)
    log = manager.open("orders")
    ended: list[str] = []

    def wait_beyond() -> None:
        with pytest.raises(Closed):
            log.wait_beyond(log.durable_end(), None)
        ended.append("wait_beyond")

    def follow() -> None:
        with pytest.raises(Closed):
            list(log.follow())
        ended.append("follow")

    threads = [threading.Thread(target=target, daemon=True) for target in (wait_beyond, follow)]
    for thread in threads:
        thread.start()
    manager.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(ended) == ["follow", "wait_beyond"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_memory_stays_bounded_while_ten_gibibytes_are_appended(tmp_path: Path) -> None:
    program = f"""
        import resource, sys
        from lakebed.aof.config import AofConfig, RetentionConfig
        from lakebed.aof.errors import WouldBlock
        from lakebed.aof.manager import AofManager
        config = AofConfig(retention=RetentionConfig(bytes_max={512 * MIB}))
        batch = [b"x" * 1024] * 1000
        with AofManager(sys.argv[1], config=config) as manager:
            log = manager.open("orders")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            appended = 0
            while appended < {10 * 1024 * MIB}:
                try:
                    count = len(log.append_records(batch))
                except WouldBlock as error:  # the segment before is not sealed yet
                    count = len(error.record_ids)
                    log.wait_for_writable_segment(60)
                log.flush()
                appended += count * 1024
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(before, after)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    before_kib, after_kib = map(int, done.stdout.split())
    print(f"resident memory: {before_kib // 1024} MiB before, {after_kib // 1024} MiB at most")
    assert after_kib - before_kib < 300 * 1024
