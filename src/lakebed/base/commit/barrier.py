"""The group-commit barrier that all engines share.

Callers submit items and wait, or take a ticket. A caller that waits while no commit is running
becomes the *leader*: in its own thread it commits the queued items (up to the batch limits) in one
call of the sink, wakes the callers it covered, and passes the lead to the first caller that waits
for a later batch. So a lone caller pays for no thread switch, and under load batches form while the
previous sync runs. Items that no caller waits for are committed by `step`, which a runner drives:
at most `delay_ms_max` after they were submitted, or at once when a batch is full or queue space is
needed. *Awaited* items, whose callers wait without a thread (in an event loop), are also committed
by `step`: at once, or after the commit in progress.

Invariants:
- items are committed in the order they were queued, one batch at a time;
- a ticket is fulfilled only after the sink's `commit` that contained its item has returned;
- a commit that fails fails exactly the tickets it contained, and nothing is repeated. A
  `DiskError` also ends the sink: items still queued go to the sink that `recover` provides, or
  are refused with `Poisoned`, as are all later items;
- at most `queue_*_max` is queued or in the sink; beyond that callers wait or get `Busy`.

What may be lost: every item without a fulfilled ticket. Such an item may also turn out to be
durable after a crash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.commit.batch import Batch, Item, Result, Ticket
from lakebed.base.commit.config import CommitConfig
from lakebed.base.commit.linger import Linger
from lakebed.base.commit.space import SpaceReserve
from lakebed.base.counters import Counters
from lakebed.base.errors import Busy, Closed, DiskError, LakebedError, Poisoned, TooLarge
from lakebed.base.runner.protocol import Event, Runner

ItemIn = TypeVar("ItemIn", contravariant=True)
ResultOut = TypeVar("ResultOut", covariant=True)


class Sink(Protocol[ItemIn, ResultOut]):
    """The destination of batches. Only one `commit` runs at a time."""

    def commit(self, items: Sequence[ItemIn]) -> Sequence[ResultOut | LakebedError]:
        """Makes all items durable and returns their results in order, or raises for all of them.

        An error in place of a result fails that item alone. A raised `DiskError` means that this
        sink can make nothing durable any more; any other `LakebedError` leaves it usable.
        """


Recover = Callable[[LakebedError], Sink[Item, Result]]
"""Provides the sink that takes over from one that failed, or raises to refuse all writes."""


class Barrier(Generic[Item, Result]):
    """Commits the items of many threads. All methods are thread-safe."""

    def __init__(
        self,
        sink: Sink[Item, Result],
        *,
        name: str,
        runner: Runner,
        wake: Callable[[], None],
        config: CommitConfig | None = None,
        reserve: SpaceReserve | None = None,
        recover: Recover[Item, Result] | None = None,
        linger: Linger | None = None,
        counters: Counters | None = None,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        """`name` appears in errors. `wake` makes the runner call `step` soon. `linger` decides
        how long items without a waiting caller may wait, by default `delay_ms_max`. `on_room`
        is called when there is queue space again after a caller that would not wait got
        `Busy`.
        """
        self._sink = sink
        self._name = name
        self._runner = runner
        self._clock = runner.clock
        self._wake = wake
        self._config = config or CommitConfig()
        self._reserve = reserve
        self._recover = recover
        self._on_room = on_room
        self._linger = linger or Linger(delay_ms_max=self._config.delay_ms_max, is_adaptive=False)
        counters = counters or Counters()
        self._items = counters.counter("commit_items")
        self._bytes = counters.counter("commit_bytes")
        self._failures = counters.counter("commit_failures")
        self._duration_ns = counters.histogram("commit_duration_ns")
        # The mutex guards everything below and the batches that are not done. It is never held
        # during I/O. Only the leader touches the sink, and sets the poison.
        self._mutex = runner.mutex()
        self._queue: deque[Batch[Item, Result]] = deque()
        self._is_led = False
        self._is_timed = False  # `step` asked to be called again within `delay_ms_max`
        self._pending_bytes = 0
        self._pending_count = 0
        self._is_room_wanted = False  # a caller that would not wait was refused
        self._passed: Event | None = None  # set for waiting callers when the lead is passed on
        self._poison: LakebedError | None = None
        self._is_closed = False

    @property
    def failure(self) -> LakebedError | None:
        """Why every item is refused from now on, or None."""
        return self._poison

    def commit(
        self, item: Item, *, size: int, count: int = 1, timeout: float | None = None
    ) -> Result:
        """Submits an item of `size` bytes and waits until it is durable.

        `count` is its contribution to the batch's count, for items that hold many records.
        """
        self._check_size(size)
        with self._mutex:
            self._check_open()
            is_alone = not self._is_led and not self._queue
            if is_alone:
                self._is_led = True
                self._pending_bytes += size
                self._pending_count += 1
        if is_alone:
            return self._commit_alone(item, size)
        return self._enqueue(item, size, count, timeout).wait(timeout)

    def submit(
        self,
        item: Item,
        *,
        size: int,
        count: int = 1,
        timeout: float | None = None,
        is_awaited: bool = False,
    ) -> Ticket[Result]:
        """Queues an item. It is committed whether or not its ticket is waited for.

        Waits only for queue space; with `timeout` 0 it never waits but raises `Busy`. With
        `is_awaited` a caller waits through `when_done`, so the item is committed without delay.
        """
        self._check_size(size)
        ticket = self._enqueue(item, size, count, timeout)
        if is_awaited:
            ticket.batch.is_awaited = True
            if not self._is_led:  # a leader wakes `step` for what it leaves queued
                self._wake()
            return ticket
        # `_is_timed` changes under the mutex alone: if it is set now, after the item joined,
        # then the step that set it runs again and finds the item.
        # A full batch is left to its submitter, which probably waits for it, until another begins.
        if not self._is_timed or len(self._queue) > 1:
            self._wake()
        return ticket

    def step(self) -> int | None:
        """Commits items that are due and have no leader. Returns the ns until more is due, or None.

        While callers come and go it asks to be called again, so that they need not wake it.
        """
        while True:
            with self._mutex:
                self._is_timed = False
                if self._is_led:
                    # A leader wakes us if it leaves items queued.
                    return self._timed(self._config.delay_ms_max * NS_PER_MS)
                if not self._queue:
                    return None
                head = self._queue[0]
                delay_ns = self._due_ns(head)
                if delay_ns > 0:
                    return self._timed(delay_ns)
                self._is_led = True
            self._lead(until=head)

    def close(self) -> None:
        """Refuses new items, commits the queued ones, and returns. Idempotent.

        The owner of the sink closes it.
        """
        while True:
            with self._mutex:
                self._is_closed = True
                last = self._queue[-1] if self._queue else None
                if last is None and not self._is_led:
                    return
                passed = self._passed = self._passed or self._runner.event()
            if last is not None:
                self.wait_for(last, None)
            else:
                passed.wait()

    def __enter__(self) -> Barrier[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_for(self, batch: Batch[Item, Result], timeout: float | None) -> bool:
        """Waits until the batch is done, and leads if there is no leader. Returns False on
        time-out.
        """
        turn = None
        with self._mutex:
            if batch.is_done:
                return True
            leads = not self._is_led
            if leads:
                self._is_led = True
            elif not batch.has_heir:
                batch.has_heir = True
                turn = batch.turn = self._runner.event()
        if turn is not None:
            leads = self._await_turn(batch, turn, timeout)
        elif not leads:
            return batch.done.wait(timeout)
        if leads:
            self._lead(until=batch)
        return batch.is_done

    def when_done(self, batch: Batch[Item, Result], callback: Callable[[], None]) -> None:
        with self._mutex:
            if not batch.is_done:
                batch.callbacks.append(callback)
                return
        callback()

    # Queueing.

    def _enqueue(self, item: Item, size: int, count: int, timeout: float | None) -> Ticket[Result]:
        deadline_ns = None if timeout is None else self._clock.monotonic_ns() + timeout * NS_PER_S
        while True:
            with self._mutex:
                self._check_open()
                if self._has_room(size):
                    return self._join(item, size, count)
                # Nobody leads, so something is queued: make room rather than wait for it.
                head = None if self._is_led or timeout == 0 else self._queue[0]
                if head is not None:
                    self._is_led = True
                self._is_room_wanted |= timeout == 0
                is_left_to_step = timeout == 0 and not self._is_led
                passed = self._passed = self._passed or self._runner.event()
            if head is not None:
                self._lead(until=head)
                continue
            if is_left_to_step:
                self._wake()
            seconds = None
            if deadline_ns is not None:
                seconds = max(0.0, (deadline_ns - self._clock.monotonic_ns()) / NS_PER_S)
            if not passed.wait(seconds):
                raise Busy(f"{self._name}: the queue of writes is full")

    def _check_size(self, size: int) -> None:
        if size > self._config.queue_bytes_max:
            raise TooLarge(f"{self._name}: an item", size=size, limit=self._config.queue_bytes_max)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"{self._name}: closed")
        if self._poison is not None:
            raise self._refusal(self._poison)

    def _has_room(self, size: int) -> bool:
        return (
            self._pending_count < self._config.queue_count_max
            and self._pending_bytes + size <= self._config.queue_bytes_max
        )

    def _join(self, item: Item, size: int, count: int) -> Ticket[Result]:
        """Adds the item to the last batch, or to a new one if that is full. Requires the mutex."""
        batch = self._queue[-1] if self._queue else None
        if batch is None or (
            batch.count + count > self._config.batch_count_max
            or batch.size + size > self._config.batch_bytes_max
        ):
            batch = Batch(done=self._runner.event(), created_ns=self._clock.monotonic_ns())
            self._queue.append(batch)
        batch.items.append(item)
        batch.size += size
        batch.count += count
        self._pending_bytes += size
        self._pending_count += 1
        return Ticket(self, batch, len(batch.items) - 1)

    def _is_full(self, batch: Batch[Item, Result]) -> bool:
        return (
            batch.count >= self._config.batch_count_max
            or batch.size >= self._config.batch_bytes_max
        )

    def _due_ns(self, head: Batch[Item, Result]) -> int:
        is_pressed = len(self._queue) > 1 or self._is_room_wanted or self._is_closed
        if is_pressed or head.is_awaited or self._is_full(head):
            return 0
        now_ns = self._clock.monotonic_ns()
        return head.created_ns + self._linger.delay_ns(now_ns) - now_ns

    def _timed(self, delay_ns: int) -> int | None:
        """Returns what `step` returns to be called again after that long. Requires the mutex."""
        self._is_timed = delay_ns > 0
        return delay_ns or None

    # Leading.

    def _await_turn(self, batch: Batch[Item, Result], turn: Event, timeout: float | None) -> bool:
        """Waits as the batch's heir. Returns whether the lead was passed to this caller."""
        try:
            turn.wait(timeout)
        except BaseException:  # interrupted: if the lead was passed to us, pass it on
            if self._leave_line(batch):
                self._pass_lead()
            raise
        return self._leave_line(batch)

    def _leave_line(self, batch: Batch[Item, Result]) -> bool:
        with self._mutex:
            batch.has_heir = False
            is_leader, batch.is_lead_given = batch.is_lead_given, False
            return is_leader

    def _commit_alone(self, item: Item, size: int) -> Result:
        """Commits as the leader of an empty queue, so that a lone caller pays for little more
        than the sync.
        """
        try:
            result = self._call_sink((item,), size)[0]
        finally:
            self._pass_lead(freed_count=1, freed_bytes=size)
        if isinstance(result, LakebedError):
            raise result
        return result

    def _lead(self, *, until: Batch[Item, Result]) -> None:
        """Commits all batches up to and including that one. Covered callers are woken after the
        lead is passed on, so that the next sync runs while they wake.
        """
        ended: list[Batch[Item, Result]] = []
        try:
            while not until.is_done and self._poison is None:
                self._commit_next(ended)
        finally:
            self._pass_lead()
            for batch in ended:
                batch.notify()

    def _commit_next(self, ended: list[Batch[Item, Result]]) -> None:
        with self._mutex:
            batch = self._queue.popleft()
        ended.append(batch)
        try:
            batch.results = self._call_sink(batch.items, batch.size)
        except LakebedError as error:
            batch.error = error
        except BaseException as error:
            batch.error = self._refusal(error)
            raise
        finally:
            with self._mutex:
                self._end(batch)
                is_room_wanted, self._is_room_wanted = self._is_room_wanted, False
            if is_room_wanted:
                self._on_room()

    def _call_sink(self, items: Sequence[Item], size: int) -> Sequence[Result | LakebedError]:
        """Runs and measures one commit. If it raises, the sink was replaced or the barrier was
        poisoned.
        """
        started_ns = self._clock.monotonic_ns()
        try:
            if self._reserve is not None:
                self._reserve.check(size)
            results = self._sink.commit(items)
            assert len(results) == len(items), "the sink lost count"
        except DiskError as error:
            self._failures.add()
            self._replace_sink(error)
            raise
        except LakebedError:
            self._failures.add()
            raise
        except BaseException as error:
            # Interrupted, or a bug: what the sink did is unknown, so it is done with.
            self._failures.add()
            self._poison = self._refusal(error)
            raise
        self._items.add(len(items))
        self._bytes.add(size)
        ended_ns = self._clock.monotonic_ns()
        self._duration_ns.observe(ended_ns - started_ns)
        self._linger.note(ended_ns=ended_ns, duration_ns=ended_ns - started_ns)
        return results

    def _replace_sink(self, error: DiskError) -> None:
        """Continues with another sink after a failure, or refuses everything from now on."""
        if self._recover is None:
            self._poison = error
            return
        try:
            self._sink = self._recover(error)
        except LakebedError as failure:
            self._poison = failure

    def _pass_lead(self, *, freed_count: int = 0, freed_bytes: int = 0) -> None:
        """Passes the lead to the first caller that waits for a batch, if there is one."""
        refused: list[Batch[Item, Result]] = []
        heir = None
        with self._mutex:
            self._pending_count -= freed_count
            self._pending_bytes -= freed_bytes
            if self._poison is not None:
                while self._queue:
                    refused.append(self._queue.popleft())
                    refused[-1].error = self._refusal(self._poison)
                    self._end(refused[-1])
            for batch in self._queue:
                if batch.has_heir:
                    heir = batch
                    heir.is_lead_given = True
                    break
            else:
                self._is_led = False
            is_unattended = heir is None and bool(self._queue)
            passed, self._passed = self._passed, None
            is_room_wanted, self._is_room_wanted = self._is_room_wanted, False
        if heir is not None and heir.turn is not None:
            heir.turn.set()
        elif is_unattended:
            self._wake()
        if passed is not None:
            passed.set()
        if is_room_wanted:
            self._on_room()
        for batch in refused:
            batch.notify()

    def _end(self, batch: Batch[Item, Result]) -> None:
        """Marks the batch as final. Requires the mutex."""
        self._pending_bytes -= batch.size
        self._pending_count -= len(batch.items)
        batch.items = []  # tickets may live on; what they covered need not
        batch.is_done = True

    def _refusal(self, cause: BaseException) -> Poisoned:
        return Poisoned("commit", self._name, why=f"refused after a failure: {cause}")
