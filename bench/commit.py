"""The group-commit barrier beside one sync per call, on growing and on zero-filled files.

All contestants make the same 1 KiB records durable before a caller goes on. A log acknowledges in
order, so a caller that syncs for itself holds the log meanwhile: that is the baseline. Without the
order ("unordered") the kernel may merge syncs, but a power cut could leave holes.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.row import Contestant, Row, Run
from lakebed.base.commit import Barrier, Batch, CommitConfig, FileTail
from lakebed.base.files import File
from lakebed.base.layout import Buffer
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk

RECORD = b"x" * 1024
FILE_BYTES = 8 << 20  # more than one run writes
COMMITS = {1: 100, 16: 40, 128: 30}  # of each caller in a run
SCRATCH = Path(__file__).parent / "results"  # on the disk that is measured, not in memory

Commit = Callable[[], object]


def rows() -> Iterator[Row]:
    for callers in COMMITS:
        for kind, prepare in (("growing", _growing), ("zero-filled", _zero_filled)):
            yield _row(f"commit/{kind}/{callers} callers", callers, prepare, busy=False)
    for callers in (1, 16):
        name = f"commit/zero-filled/{callers} callers with a busy thread"
        yield _row(name, callers, _zero_filled, busy=True)


def _row(name: str, callers: int, prepare: Prepare, *, busy: bool) -> Row:
    def contestant(label: str, work: Work) -> Contestant:
        return Contestant(label, partial(_contest, callers, prepare, work, busy=busy))

    contestants = [
        contestant("barrier", _barrier),
        contestant("one sync per call", _sync_in_order),
        contestant("one sync per call, unordered", _sync_unordered),
        contestant("limit: one sync per round", _one_sync),
    ]
    if callers > 1:
        contestants.insert(1, contestant("barrier, coroutines", _coroutines))
        contestants.insert(2, contestant("barrier, tickets", _tickets))
    return Row(name=name, unit="commits", baseline="one sync per call", contestants=contestants)


# Files.

Prepare = Callable[[File], None]


def _growing(file: File) -> None:
    file.truncate(0)


def _zero_filled(file: File) -> None:
    if file.size() < FILE_BYTES:
        file.zero_fill(0, FILE_BYTES)
        file.sync()


# Ways to work: each runs `count` commits for each of `callers` and returns when all are durable.

Work = Callable[[File, "Crew", int], None]


def _barrier(file: File, crew: Crew, count: int) -> None:
    with _open_barrier(file) as barrier:
        crew.work(count, lambda: barrier.commit(RECORD, size=len(RECORD)))


def _coroutines(file: File, crew: Crew, count: int) -> None:
    """The callers are coroutines of one event loop, as those of a server are."""

    async def all_callers(barrier: Barrier[Buffer, int]) -> None:
        bridge = _LoopBridge(barrier)

        async def caller() -> None:
            for _ in range(count):
                await bridge.commit(RECORD)

        await asyncio.gather(*(caller() for _ in range(crew.size)))

    with _open_barrier(file, delay_ms_max=0) as barrier:
        asyncio.run(all_callers(barrier))


class _LoopBridge:
    """Awaits commits: the loop is told once a batch, not once a commit."""

    def __init__(self, barrier: Barrier[Buffer, int]) -> None:
        self._barrier = barrier
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Batch[Buffer, int], asyncio.Event] = {}

    async def commit(self, record: bytes) -> int:
        ticket = self._barrier.submit(record, size=len(record), timeout=0)
        batch = ticket.batch
        event = self._waiting.get(batch)
        if event is None:
            event = self._waiting[batch] = asyncio.Event()
            told = partial(self._tell, batch)
            ticket.when_done(partial(self._wake_loop, told))
        await event.wait()
        return ticket.result()

    def _wake_loop(self, told: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(told)

    def _tell(self, batch: Batch[Buffer, int]) -> None:
        self._waiting.pop(batch).set()


def _tickets(file: File, crew: Crew, count: int) -> None:
    """One thread that has as many commits in flight as there would be callers."""
    with _open_barrier(file) as barrier:
        for _ in range(count):
            tickets = [barrier.submit(RECORD, size=len(RECORD)) for _ in range(crew.size)]
            for ticket in tickets:
                ticket.wait()


def _sync_in_order(file: File, crew: Crew, count: int) -> None:
    lock = threading.Lock()
    end = 0

    def commit() -> None:
        nonlocal end
        with lock:
            file.write_and_sync(end, [RECORD])
            end += len(RECORD)

    crew.work(count, commit)


def _sync_unordered(file: File, crew: Crew, count: int) -> None:
    lock = threading.Lock()
    end = 0

    def commit() -> None:
        nonlocal end
        with lock:
            offset = end
            end += len(RECORD)
        file.write_and_sync(offset, [RECORD])

    crew.work(count, commit)


def _one_sync(file: File, crew: Crew, count: int) -> None:
    """No threads, no queue: as if every caller were always in the same batch."""
    for number in range(count):
        file.write_and_sync(number * crew.size * len(RECORD), [RECORD] * crew.size)


@contextmanager
def _open_barrier(file: File, *, delay_ms_max: int = 5) -> Iterator[Barrier[Buffer, int]]:
    with ThreadRunner() as runner:
        barrier: Barrier[Buffer, int] = Barrier(
            FileTail(file, end=0),
            name=file.path,
            runner=runner,
            wake=lambda: task.wake(),  # noqa: PLW0108 - the task comes later
            config=CommitConfig(delay_ms_max=delay_ms_max),
        )
        task = runner.spawn("commit", barrier.step)
        with barrier:
            yield barrier


class Crew:
    """Threads that live as long as a contestant, so that starting them is not measured."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._gate = threading.Barrier(size + 1)
        self._job: tuple[int, Commit] | None = None
        self._threads = [threading.Thread(target=self._live, daemon=True) for _ in range(size)]
        for thread in self._threads:
            thread.start()

    def work(self, count: int, commit: Commit) -> None:
        self._job = (count, commit)
        self._gate.wait()
        self._gate.wait()

    def dismiss(self) -> None:
        self._job = None
        self._gate.wait()
        for thread in self._threads:
            thread.join()

    def _live(self) -> None:
        while True:
            self._gate.wait()
            if self._job is None:
                return
            count, commit = self._job
            for _ in range(count):
                commit()
            self._gate.wait()


@contextmanager
def _contest(callers: int, prepare: Prepare, work: Work, *, busy: bool) -> Iterator[Run]:
    with ExitStack() as stack:
        SCRATCH.mkdir(exist_ok=True)
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=SCRATCH))
        file = stack.enter_context(real_disk().create(Path(folder) / "file"))
        prepare(file)
        crew = Crew(callers)
        stack.callback(crew.dismiss)

        def run() -> float:
            prepare(file)
            with _busy_thread() if busy else ExitStack():
                work(file, crew, COMMITS[callers])
            return callers * COMMITS[callers]

        yield run


@contextmanager
def _busy_thread() -> Iterator[None]:
    """Another thread of this process that computes and never gives up the interpreter lock."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
