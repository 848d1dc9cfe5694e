"""Executes a plan on a simulated machine, checks every result against the model and logs each
step."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.scheduler import Deadlock, Livelock, SimulatedCrash
from lakebed.simulator import checks, damages
from lakebed.simulator.context import Answer, Context, NotOpen, Outcome
from lakebed.simulator.damages import Vanish
from lakebed.simulator.drawing import TOGETHER
from lakebed.simulator.faults import FAULTS, Reopen, StoreGone
from lakebed.simulator.machine import Machine, quiet_logs
from lakebed.simulator.operations import OPERATIONS, groups
from lakebed.simulator.plan import Plan, Step
from lakebed.simulator.report import Coverage
from lakebed.simulator.violation import Promise, Violation

_COLLECT_STEPS = 1000
_SCHEDULES_NS = 30 * 24 * 3600 * NS_PER_S


class Trace:
    """The log of one run in plain English: one line per step, crash and check.

    The same plan always produces the same lines.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, step: Step, answer: Answer, *, wall_ms: int) -> None:
        self.lines.append(f"{step.number:5} [{wall_ms}] {answer.words}")

    def add(self, stories: Iterable[str]) -> None:
        self.lines.extend(f"      {story}" for story in stories)

    def digest(self) -> str:
        """Returns a hash of all lines, for comparing traces."""
        return blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()


@dataclass
class RunResult:
    """The result of running a plan. `violation` is None if every promise was kept."""

    plan: Plan
    violation: Violation | None
    step_index: int  # of the last step that was begun; the number of steps in the final checks
    trace: Trace
    coverage: Coverage = field(default_factory=Coverage)
    details: str = ""  # where in the code an unexpected error came from


def run_plan(plan: Plan) -> RunResult:
    """Runs the steps of a plan and then the final checks, and stops at the first broken promise."""
    with quiet_logs(), _collected_at_fixed_steps():
        return _Run(plan).result()


@contextmanager
def _collected_at_fixed_steps() -> Iterator[None]:
    """Stops automatic garbage collection in the block: the run collects garbage at fixed steps.

    Collecting garbage closes files, and Python chooses its moment differently in each process.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect()


class _Run:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._machine = Machine(plan.seed, plan.settings)
        self._context = Context(self._machine)
        self._trace = Trace()
        self._coverage = Coverage()
        self._recent: set[str] = set()  # the faults since the last operation
        self._index = 0

    def result(self) -> RunResult:
        violation, details = None, ""
        try:
            self._all()
        except Violation as error:
            violation = error
        except (Deadlock, Livelock) as error:
            promise = Promise.TASKS if isinstance(error, Deadlock) else Promise.QUIET
            violation = Violation(promise, str(error))
        except Exception as error:  # noqa: BLE001 - a bug of the simulator or of the store
            what = f"an unexpected {type(error).__name__}: {error}"
            violation, details = Violation(Promise.ERRORS, what), traceback.format_exc()
        finally:
            self._trace.add(self._context.stories)
            self._machine.close()
        if violation is not None:
            self._trace.add([f"BROKEN {violation}"])
        return RunResult(self._plan, violation, self._index, self._trace, self._coverage, details)

    def _all(self) -> None:
        self._guarded(self._open)
        self._record()
        for index, step in enumerate(self._plan.steps):
            self._index = index
            self._coverage.step_count += 1
            if index % _COLLECT_STEPS == _COLLECT_STEPS - 1:
                gc.collect()
            self._guarded(partial(self._step, step))
            self._record()
        self._index = len(self._plan.steps)
        self._end()
        self._record()

    def _end(self) -> None:
        """Ends all faults, reopens the store, and checks everything."""
        self._machine.heal()
        self._context.active_faults.clear()
        self._context.parts.pop("crash", None)
        self._reopen(None)
        held: list[str] = []
        if self._plan.seed % 2:  # background work also comes to rest while a pin holds it up
            self._call("pin", lambda: held.extend(checks.pin_oldest(self._context)))
        checks.check_quiet(self._context)
        self._call("release", partial(checks.release, self._context, held))
        self._call("check", partial(checks.check_rest, self._context))
        self._machine.set_clock(_SCHEDULES_NS)  # makes all scheduled messages due
        self._call("check", partial(checks.check_end, self._context))
        self._reopen(None)

    def _record(self) -> None:
        self._trace.add(self._context.stories)
        self._context.stories.clear()

    # Steps.

    def _step(self, step: Step) -> None:
        if step.name in FAULTS:
            self._recent.add(step.name)
            try:
                answer = FAULTS[step.name].run(self._context, step)
            except NotOpen:
                answer = Answer(Outcome.NOTHING, f"{step.name}: skipped, because no store is open")
            self._coverage.count(step.name, answer.outcome, ())
            self._trace.step(step, answer, wall_ms=self._machine.wall_ms)
            return
        steps = step.together if step.name == TOGETHER else (step,)
        callers = [(each.name, partial(self._operate, each)) for each in steps]
        answers = [call.result() for call in self._machine.run_all(callers)]
        for each, answer in zip(steps, answers, strict=True):
            self._trace.step(each, answer, wall_ms=self._machine.wall_ms)
        self._recent.clear()

    def _operate(self, step: Step) -> Answer:
        faults = self._recent | self._context.active_faults
        if "crash" in self._context.parts:
            faults.add(f"crash.{self._context.parts['crash'][0].value}")
        try:
            answer = OPERATIONS[step.name].run(self._context, step)
        except LakebedError as error:
            answer = self._context.refused(
                error, step.name, is_damaged=self._context.is_any_damaged
            )
        except NotOpen:
            answer = Answer(Outcome.NOTHING, f"{step.name}: skipped, because no store is open")
        except SimulatedCrash:
            self._coverage.count(step.name, Outcome.UNKNOWN, faults)
            raise
        self._coverage.count(step.name, answer.outcome, faults)
        return answer

    def _guarded(self, act: Callable[[], None]) -> None:
        """Calls `act`. Carries out a crash that happens in it, or a request to crash, to reopen the
        store, or to open it once without a file; then opens the store again and checks it.
        """
        while True:
            try:
                act()
                return
            except SimulatedCrash:
                crash, survivors = self._context.parts.pop("crash", (Crash.KILL, 0))
                act = partial(self._crash, crash, survivors)
            except StoreGone as gone:
                act = partial(self._crash, gone.crash, gone.survivors)
            except Vanish as asked:
                self._coverage.count("file.vanishes", Outcome.OK, ())
                act = partial(self._vanish, asked.step)
            except Reopen as reopen:
                self._coverage.count("store.reopen", Outcome.OK, ())
                act = partial(self._reopen, reopen.settings)

    # Opening and closing the store.

    def _crash(self, crash: Crash, survivors: int) -> None:
        self._coverage.crash_count += 1
        name = f"crash.{crash.value}"
        self._coverage.count(name, Outcome.OK, ())
        self._recent.add(name)
        self._context.story(
            f"{'the process is killed' if crash is Crash.KILL else 'the power is cut'}, "
            f"survivors = {survivors}"
        )
        self._machine.crash(crash, survivors=survivors)
        checks.note_crash(self._context, crash)
        self._context.parts.pop("crash", None)
        self._open()

    def _reopen(self, settings: dict[str, object] | None) -> None:
        self._close()
        if settings is not None:
            self._machine.settings.update(settings)
            groups.doubt_times(self._context)  # the new settings may shorten leases
            self._context.story("reopen with other settings")
        self._open()

    def _vanish(self, step: Step) -> None:
        """Closes the store, opens it once while a file is missing, puts the file back, and opens
        the store again.
        """
        context = self._context
        self._close()
        taken = damages.take_away(context, step)
        if taken is not None:
            path, content = taken
            try:
                self._without(path)
            finally:  # also if a crash comes meanwhile
                damages.put_back(context, path, content)
        self._open()

    def _without(self, path: str) -> None:
        """Opens and uses the store while the file is missing. Any `LakebedError` is accepted."""
        context = self._context
        checks.note_opening(context)
        try:
            self._call("open", self._machine.open)
            self._call("poke", partial(damages.poke, context, path))
        except LakebedError as error:
            context.story(f"open the store without the file: {type(error).__name__}")
        store, self._machine.store = self._machine.store, None
        if store is not None:
            self._call("close", store.close)
        self._machine.world.disk.open_paths.clear()

    def _close(self) -> None:
        if self._machine.store is not None:
            self._call("close", partial(checks.close_store, self._context))
            checks.note_closed(self._context)

    def _open(self) -> None:
        context = self._context
        context.handles.clear()
        context.followers.clear()
        context.is_troubled = context.is_poisoned = self._machine.is_troubled
        checks.note_opening(context)
        try:
            self._call("open", self._machine.open)
        except LakebedError as error:
            self._machine.store = None
            context.story(f"open the store: {type(error).__name__}: {error}")
            if not checks.may_not_open(context):
                raise Violation(
                    Promise.OPENS,
                    f"the store does not open: {type(error).__name__}: {error}",
                ) from error
            return
        self._call("check", partial(checks.check_opened, context))

    def _call(self, name: str, act: Callable[[], object]) -> None:
        self._machine.run(name, act)
