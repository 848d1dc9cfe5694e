"""Threads that are passed in: background work is a `step()`, and engines wait through the runner.

- `protocol`: `Runner`, `Task`, `Event`, `Mutex`, `Computation`;
- `threads`: the real runner, with a named thread per task;
- `step_driver`: one task that runs the steps of many objects, few of which have work at a time;
- `open_registry`: objects that are opened once per key, several at the same time;
- `lakebed.base.simulation.scheduler`: the deterministic runner, driven by a seed.
"""

from lakebed.base.runner.protocol import Computation, Event, Mutex, Runner, Step, Task
from lakebed.base.runner.threads import ThreadRunner

__all__ = ["Computation", "Event", "Mutex", "Runner", "Step", "Task", "ThreadRunner"]
