"""Threads, passed in: background work is a `step()`, and waiting is asked of the runner.

- `protocol`: `Runner`, `Task`, `Event`, `Mutex`, `Computation`;
- `threads`: the real one: a named thread per task;
- `step_driver`: one task for many things, of which few have something to do;
- `together`: several things opened at the same time;
- `lakebed.base.simulation.scheduler`: the deterministic one, driven by a seed.
"""

from lakebed.base.runner.protocol import Computation, Event, Mutex, Runner, Step, Task
from lakebed.base.runner.threads import ThreadRunner

__all__ = ["Computation", "Event", "Mutex", "Runner", "Step", "Task", "ThreadRunner"]
