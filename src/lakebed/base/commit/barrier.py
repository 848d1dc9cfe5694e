"""The group-commit barrier that all engines share.

Callers submit items and wait, or take a ticket. A caller that waits while no commit is running
becomes the *leader*: in its own thread it commits the queued batches up to its own, each in one
call of the sink. Then it passes the lead to the first caller that waits for a later batch, and
wakes the callers whose items it committed. So a single caller needs no thread switch, and under
load batches form while the previous sync runs.

Items that no caller waits for are committed by a leader along with others, or by `step`, which a
runner calls: at most `delay_ms_max` after they were submitted or after the commit that is then
running, or sooner if a second batch has to be started or queue space is needed. *Awaited* items,
whose callers wait in an event loop, are also committed by `step`: immediately, or after the commit
in progress.

Invariants:
- items are committed in the order they were queued, one batch at a time;
- a ticket is fulfilled only after the sink's `commit` that contained its item has returned;
- if a commit fails, the tickets of its items fail, and the commit is not repeated. After a
  `DiskError` the sink is not used again: queued and later items go to the sink that `recover`
  returns, or are refused with `Poisoned`. After an exception that is not a `LakebedError`, they are
  refused;
- at most `queue_bytes_max` bytes and `queue_count_max` items are queued or in the sink; callers
  that would exceed a limit wait or get `Busy`.

After a crash, every item whose ticket was not fulfilled may be lost, or may be durable.
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
    """Makes batches of items durable. Only one `commit` runs at a time."""

    def commit(self, items: Sequence[ItemIn]) -> Sequence[ResultOut | LakebedError]:
        """Makes all items durable and returns their results in order. If it raises an error, all
        items failed.

        An error in place of a result means that only this item failed. After raising a `DiskError`
        the sink is not used again; after any other `LakebedError` it is. Any other exception makes
        the barrier refuse all later items.
        """


Recover = Callable[[LakebedError], Sink[Item, Result]]
"""Takes the error with which a sink failed, and returns a sink that replaces it. If this function
raises a `LakebedError`, the barrier refuses all later items.
"""


class Barrier(Generic[Item, Result]):
    """Commits items of many threads in batches, in the order they were queued. Thread-safe."""

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
        """Creates a barrier in front of `sink`.

        `name` appears in errors. `wake` must make the runner call `step` soon. `linger` decides how
        long items without a waiting caller are held back, by default for `delay_ms_max`. `on_room`
        is called when there is queue space again after a call with `timeout` 0 raised `Busy`.
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
        # The mutex guards all fields below and the batches that are not done. It is never held
        # during I/O. Only the leader uses the sink and sets `_poison`.
        self._mutex = runner.mutex()
        self._queue: deque[Batch[Item, Result]] = deque()
        self._is_led = False
        self._is_timed = False  # `step` will be called again within `delay_ms_max`
        self._pending_bytes = 0
        self._pending_count = 0
        self._is_room_wanted = False  # a call with `timeout` 0 was refused
        self._passed: Event | None = None  # set for waiting callers when the lead is passed on
        self._poison: LakebedError | None = None
        self._is_closed = False

    @property
    def failure(self) -> LakebedError | None:
        """The error that makes the barrier refuse all later items, or None."""
        return self._poison

    def commit(
        self, item: Item, *, size: int, count: int = 1, timeout: float | None = None
    ) -> Result:
        """Submits an item of `size` bytes, waits until it is durable, and returns its result.
        Raises the error of the commit if it fails.

        `count` is the number of records in the item, which counts towards `batch_count_max`. Raises
        `Busy` if there is no queue space within `timeout` seconds, and `OutcomeUnknown` if the item
        was queued but not committed within as long again. The time-out does not apply while this
        caller runs a commit itself. Raises `TooLarge` if `size` exceeds `queue_bytes_max`.
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
        """Queues an item and returns its ticket. The item is committed even if no caller waits.

        If the queue is full, the call waits for space, or commits queued items itself to make room.
        It raises `Busy` if there is no space within `timeout` seconds; with 0, immediately. Raises
        `TooLarge` if `size` exceeds `queue_bytes_max`. `is_awaited` means that the caller uses
        `when_done`, so the item is committed without delay.
        """
        self._check_size(size)
        ticket = self._enqueue(item, size, count, timeout)
        if is_awaited:
            ticket.batch.is_awaited = True
            if not self._is_led:  # a leader wakes `step` if it leaves items queued
                self._wake()
            return ticket
        # `_is_timed` changes under the mutex alone: if it is set now, after the item joined,
        # then the step that set it runs again and finds the item.
        # A full batch alone does not wake `step`, because its submitter probably waits for it. A
        # second batch does.
        if not self._is_timed or len(self._queue) > 1:
            self._wake()
        return ticket

    def step(self) -> int | None:
        """Commits due items if there is no leader. Returns the ns until the next call, or None.

        None means that `step` is called again only after `wake`. While a caller leads a commit, the
        result is `delay_ms_max` in ns (None if that is 0), so that not every `submit` has to wake
        the runner.
        """
        while True:
            with self._mutex:
                self._is_timed = False
                if self._is_led:
                    # The leader wakes this step if it leaves items queued.
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
        """Refuses new items, and returns when all queued items are committed or have failed.
        Idempotent.

        It does not close the sink; the owner of the sink does.
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
        """Waits until the batch is done, or becomes the leader and commits it. Returns False on
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
                # There is no leader, so commit what is queued to make room instead of waiting.
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
                raise Busy(f"{self._name}: the queue of writes is full; retry later")

    def _check_size(self, size: int) -> None:
        if size > self._config.queue_bytes_max:
            raise TooLarge(
                f"{self._name}: an item's size in bytes",
                size=size,
                limit=self._config.queue_bytes_max,
            )

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"{self._name} is closed")
        if self._poison is not None:
            raise self._refusal(self._poison)

    def _has_room(self, size: int) -> bool:
        return (
            self._pending_count < self._config.queue_count_max
            and self._pending_bytes + size <= self._config.queue_bytes_max
        )

    def _join(self, item: Item, size: int, count: int) -> Ticket[Result]:
        """Adds the item to the last batch, or to a new batch if that is full.

        The caller must hold the mutex.
        """
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
        """Returns the value that `step` must return to be called again after `delay_ns`.

        The caller must hold the mutex.
        """
        self._is_timed = delay_ns > 0
        return delay_ns or None

    # Leading.

    def _await_turn(self, batch: Batch[Item, Result], turn: Event, timeout: float | None) -> bool:
        """Waits for the lead, or until the batch is done. Returns whether this caller got the
        lead.
        """
        try:
            turn.wait(timeout)
        except BaseException:  # interrupted: if this caller got the lead, pass it on
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
        """Commits an item without queueing it. The caller is the leader, and the queue was
        empty.
        """
        try:
            result = self._call_sink((item,), size)[0]
        finally:
            self._pass_lead(freed_count=1, freed_bytes=size)
        if isinstance(result, LakebedError):
            raise result
        return result

    def _lead(self, *, until: Batch[Item, Result]) -> None:
        """Commits all batches up to and including `until`.

        The callers of these batches are woken after the lead is passed on, so that the next sync
        runs while they wake up.
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
        """Calls the sink for one commit, and measures the time.

        After a `DiskError` the sink is replaced; if it cannot be, all later items are refused.
        """
        started_ns = self._clock.monotonic_ns()
        try:
            if self._reserve is not None:
                self._reserve.check(size)
            results = self._sink.commit(items)
            assert len(results) == len(items), "the sink returned a wrong number of results"
        except DiskError as error:
            self._failures.add()
            self._replace_sink(error)
            raise
        except LakebedError:
            self._failures.add()
            raise
        except BaseException as error:
            # Interrupted, or a bug: it is unknown what the sink did, so it must not be used again.
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
        """Replaces the sink after it failed. If that is not possible, all later items are
        refused.
        """
        if self._recover is None:
            self._poison = error
            return
        try:
            self._sink = self._recover(error)
        except LakebedError as failure:
            self._poison = failure

    def _pass_lead(self, *, freed_count: int = 0, freed_bytes: int = 0) -> None:
        """Frees queue space, and passes the lead to a caller that waits for the earliest possible
        batch in the queue. If no caller waits, there is no leader afterwards.

        If an earlier failure makes the barrier refuse all later items, the queued items fail.
        """
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
        """Marks the batch as done and frees its queue space. The caller must hold the mutex."""
        self._pending_bytes -= batch.size
        self._pending_count -= len(batch.items)
        batch.items = []  # frees memory: tickets keep the batch alive
        batch.is_done = True

    def _refusal(self, cause: BaseException) -> Poisoned:
        return Poisoned("commit", self._name, why=f"refused after a failure: {cause}")
