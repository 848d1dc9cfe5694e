"""Opens the logs below one root and drives their flushing and sealing.

    with AofManager(root) as manager:
        log = manager.open("orders")
        record_id = log.append_record(b"...", ext_id=7)
        log.flush(record_id)

The manager holds the root's lock, so only one process writes. Two background tasks serve all logs:
the first flushes queued records, the second runs maintenance, such as sealing full segments. The
tasks of `tiers.coordinator` are started when a log needs them. If the work on one log fails, the
work is retried with growing delays and `failures` reports the error; other logs are not affected.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from lakebed.aof.config import AofConfig, ManagerConfig
from lakebed.aof.identity import load_identity
from lakebed.aof.log import Aof
from lakebed.aof.paths import LogPaths, is_log_name
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.recovery import recover
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.coordinator import Coordinator
from lakebed.aof.tiers.migration import Migration, MigrationReport
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.aof.tiers.services import TierServices
from lakebed.aof.tiers.tier_scheduler import TierScheduler
from lakebed.aof.tiers.upkeep import LogUpkeep
from lakebed.base.counters import Counters
from lakebed.base.errors import AlreadyExists, Busy, Closed, DataError, NotFound
from lakebed.base.events import event
from lakebed.base.files import Disk, PathLike, fork_guard, make_folders
from lakebed.base.progress import Progress, no_progress
from lakebed.base.runner import Event, Mutex, Runner, ThreadRunner
from lakebed.base.runner.step_driver import StepDriver
from lakebed.base.zero_fill import SpareBudget
from lakebed.kernels.disk import real_disk

_log = logging.getLogger(__name__)

LOCK_NAME = "lakebed.lock"


class AofManager:
    """Opens the logs below one root folder, holds the root's lock and runs the background tasks."""

    def __init__(
        self,
        root: PathLike,
        *,
        config: AofConfig | None = None,
        manager_config: ManagerConfig | None = None,
        tier_config: SharedTierConfig | None = None,
        object_store: ObjectStore | None = None,
        own_store: ObjectStore | None = None,
        disk: Disk | None = None,
        runner: Runner | None = None,
        is_pinned: Callable[[str, int], bool] | None = None,
        pin_mutex: Mutex | None = None,
        on_lost: Callable[[str, Sequence[str]], None] | None = None,
        random: Random | None = None,
    ) -> None:
        """`is_pinned(log, segment_id)` returns whether a segment is pinned: it is then neither
        removed by retention nor evicted from its tier. Retention holds `pin_mutex` from that call
        until the segment has left the log. `object_store`, if given, is the Tier 2 of all logs,
        whatever their address; `own_store` is the root's own object store, see `tiers.services`.
        `on_lost(log, problems)` is called to record the losses that are found
        when a log is opened; `problems` may be empty."""
        self.root = os.fspath(root)
        self.disk = disk or real_disk()
        self._config = config or AofConfig()
        self._own_runner = ThreadRunner() if runner is None else None
        used_runner = runner or self._own_runner
        assert used_runner is not None
        self._runner: Runner = used_runner
        self._is_pinned = is_pinned
        self._pin_mutex = pin_mutex or self._runner.mutex()
        self._on_lost = on_lost or _nothing_is_recorded
        self._random = random or Random()
        self.spare_budget = SpareBudget(
            bytes_max=(manager_config or ManagerConfig()).spare_bytes_max,
            mutex=self._runner.mutex(),
            on_short=self._wake_all,
        )
        self._services = TierServices(
            self.root,
            disk=self.disk,
            runner=self._runner,
            config=tier_config,
            random=self._random,
            store=object_store,
            own_store=own_store,
        )
        self._coordinator = Coordinator(self._runner, self._services, self._tierings, self._upkeeps)
        self._mutex = self._runner.mutex()
        self._logs: dict[str, Aof] = {}  # guarded by _mutex, like the next field
        self._opening: dict[str, Event] = {}  # set when the opening succeeded or failed
        self._is_closed = False
        make_folders(self.disk, self.root)
        self._lock = self.disk.lock(os.path.join(self.root, LOCK_NAME))
        self._generation = fork_guard.generation()
        try:
            self._flusher = StepDriver("aof flush", self._runner, Aof.flush_step)
            self._maintenance = StepDriver("aof maintenance", self._runner, Aof.maintenance_step)
        except BaseException:
            self._lock.release()
            raise

    @property
    def tier_counters(self) -> Counters:
        """The counters that the tiers of all logs share, such as `tier2_retries`."""
        return self._services.counters

    def open(self, name: str, *, config: AofConfig | None = None) -> Aof:
        """Opens a log for writing and creates it if it does not exist.

        Raises `AlreadyExists` if the log is already open or is being opened or migrated, `Busy` if
        it is being closed, and `Closed` if the manager is closed.
        """
        paths = LogPaths(self.root, name)
        fork_guard.check(self._generation, self.root)  # a forked child does not hold the lock
        with self._mutex:
            if self._is_closed:
                raise Closed(f"{self.root}: the manager is closed")
            log = self._logs.get(name)
            if log is not None and log.is_closed:
                raise Busy(f"{name}: the log is being closed; try again when it is closed")
            if log is not None or name in self._opening:
                raise AlreadyExists(
                    f"{name}: the log is already open, or is being opened or migrated"
                )
            self._opening[name] = self._runner.event()
        try:
            return self._open(paths, config or self._config)
        finally:
            self._end_opening(name)

    @property
    def tier2_address(self) -> str:
        """The address of Tier 2 for new logs."""
        return self._services.address

    def migrate_tier2(
        self,
        name: str,
        address: str | None = None,
        *,
        delete: bool = False,
        progress: Progress = no_progress,
    ) -> MigrationReport:
        """Moves the Tier 2 of a log that is not open to another address; see `tiers.migration`.

        The default for `address` is the address of Tier 2 for new logs. With `delete`, the objects
        at the old address are deleted after the move; without it they stay, and a later call with
        the same address and `delete` deletes them. An interrupted migration continues when this is
        called again. Raises `Busy` if the log is open, being opened or being migrated.
        """
        paths = LogPaths(self.root, name)
        with self._mutex:
            if self._is_closed:
                raise Closed(f"{self.root}: the manager is closed")
            if name in self._logs or name in self._opening:
                raise Busy(
                    f"{name}: the log is open, being opened or being migrated; close it to migrate "
                    "its Tier 2"
                )
            self._opening[name] = self._runner.event()
        try:
            migration = Migration(
                self.disk,
                paths,
                open_store=partial(self._services.store, is_writer=True),
                prefix=self._services.config.prefix,
                random=self._random,
            )
            target = self._services.address if address is None else address
            return migration.run(target, delete=delete, progress=progress)
        finally:
            self._end_opening(name)

    def _open(self, paths: LogPaths, config: AofConfig) -> Aof:
        name = paths.name
        self._check_tier2(paths)
        paths.ensure(self.disk)
        clock = self._runner.clock
        started_ns = clock.monotonic_ns()
        recovered = recover(self.disk, paths)
        self._on_lost(name, recovered.problems)
        log = Aof(
            self.disk,
            paths,
            recovered,
            config=config,
            runner=self._runner,
            wake_flush=partial(self._wake, self._flusher),
            wake_maintenance=partial(self._wake, self._maintenance),
            end_steps=self._end_steps,
            on_closed=self._forget,
            counters=Counters(),
            random=self._random,
            is_pinned=partial(self._is_pinned or _nothing_is_pinned, name),
            pin_mutex=self._pin_mutex,
            spare_budget=self.spare_budget,
            services=self._services,
            coordinator=self._coordinator,
            on_lost=partial(self._on_lost, name),
        )
        log.start()
        duration_ns = clock.monotonic_ns() - started_ns
        log.counters.gauge("aof_recovery_duration_ns").set(duration_ns)
        event(
            _log,
            "log_opened",
            log=name,
            segments=len(log.segments()),
            torn_bytes=recovered.torn_bytes,
            problems=len(recovered.problems),
            duration_ns=duration_ns,
        )
        with self._mutex:
            is_late = self._is_closed
            if not is_late:
                self._logs[name] = log
        if is_late:
            log.close()
            raise Closed(f"{self.root}: the manager was closed while the log was being opened")
        self._flusher.add(log)
        self._maintenance.add(log)
        self._coordinator.wake()
        return log

    def _check_tier2(self, paths: LogPaths) -> None:
        """Raises `BadConfig` if the log's Tier 2 is the root's own object store but is not open.

        This is checked before anything is changed. See `TierServices.check_address`.
        """
        address = self._services.address
        with contextlib.suppress(
            NotFound, DataError
        ):  # if `log.json` is missing or damaged, opening the log reports that
            address = load_identity(self.disk, paths).tier2
        self._services.check_address(address)

    def _tierings(self) -> list[TierScheduler]:
        with self._mutex:
            logs = list(self._logs.values())
        return [log.tiering for log in logs if log.tiering is not None]

    def _upkeeps(self) -> list[LogUpkeep]:
        with self._mutex:
            logs = list(self._logs.values())
        return [log.tier_upkeep for log in logs]

    def failures(self) -> dict[str, Exception]:
        """Returns the error of each open log whose background work currently fails, by log name.

        The failed work is retried. `Busy` errors are left out, because they are temporary.
        """
        with self._mutex:
            failing = {log: log.upkeep_failure for log in self._logs.values()}
        failing |= self._flusher.failures() | self._maintenance.failures()
        by_name = self._coordinator.failures() | {
            log.name: error for log, error in failing.items() if error is not None
        }
        # Busy is temporary: a queue will have room again.
        return {name: error for name, error in by_name.items() if not isinstance(error, Busy)}

    def open_read_only(self, name: str) -> ReadOnlyLog:
        """Opens a log for reading only, whether or not it is open for writing.

        Raises `NotFound` if there is no such log. The caller must close the returned object.
        """
        return ReadOnlyLog(
            self.root, name, disk=self.disk, runner=self._runner, services=self._services
        )

    def close_log(self, name: str) -> None:
        """Closes the log with that name, as `Aof.close` does; does nothing if it is not open."""
        with self._mutex:
            log = self._logs.get(name)
        if log is not None:
            log.close()

    def names(self) -> list[str]:
        """Returns the names of all logs, open or not."""
        folder = os.path.join(self.root, "aof")
        if not self.disk.exists(folder):
            return []
        names = [name for name in self.disk.names(folder) if is_log_name(name)]
        return [name for name in names if self.disk.is_folder(os.path.join(folder, name))]

    def close(self) -> None:
        """Closes every log, stops the tasks and releases the lock. Idempotent."""
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            logs = list(self._logs.values())
            opening = list(self._opening.values())
        if self._generation == fork_guard.generation():
            for ended in opening:
                ended.wait()  # opening writes to the log, which needs the lock
        with contextlib.ExitStack() as stack:
            stack.callback(self._lock.release)
            if self._own_runner is not None:
                stack.callback(self._own_runner.close)
            # Callbacks run in reverse: the tasks finish their current step before logs are closed,
            # so nothing is sealed or retired while a log is being closed.
            for log in logs:
                stack.callback(log.close)
            stack.callback(self._flusher.stop)
            stack.callback(self._maintenance.stop)
            stack.callback(self._coordinator.stop)

    def __enter__(self) -> AofManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_opening(self, name: str) -> None:
        with self._mutex:
            ended = self._opening.pop(name)
        ended.set()

    def _wake(self, steps: StepDriver[Aof], log: Aof) -> None:
        """Schedules a flush or maintenance step of the log; does nothing if the log is not open."""
        if self._logs.get(log.name) is log:
            steps.add(log)

    def _wake_all(self) -> None:
        """Schedules maintenance of all open logs, so that idle logs delete their spare segments."""
        with self._mutex:
            logs = list(self._logs.values())
        for log in logs:
            self._maintenance.add(log)

    def _end_steps(self, log: Aof) -> None:
        """Cancels the scheduled background steps of the log, and waits for a running step."""
        if self._generation != fork_guard.generation():
            return  # after a fork, running steps continue only in the parent
        self._flusher.remove(log)
        self._maintenance.remove(log)

    def _forget(self, log: Aof) -> None:
        """Removes a log that was closed, so that it can be opened again."""
        with self._mutex:
            if self._logs.get(log.name) is log:
                del self._logs[log.name]
        self._end_steps(log)  # steps that were added while it was being closed
        self._coordinator.wake()  # other logs may be waiting for the budget it used


def _nothing_is_pinned(log: str, segment_id: int) -> bool:  # noqa: ARG001
    return False


def _nothing_is_recorded(log: str, problems: Sequence[str]) -> None:
    """Does nothing: losses are not recorded if the caller gave no `on_lost`."""
