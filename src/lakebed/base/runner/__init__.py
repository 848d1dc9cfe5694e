"""Runners: they provide threads, locks and events to the engines, and run background work.

- `protocol`: `Runner`, `Task`, `Event`, `Mutex`, `Computation`;
- `threads`: the real runner, with a named thread per task;
- `step_driver`: one task that runs the steps of many objects, most of them idle;
- `failure_backoff`: the delays and log lines of background work that failed;
- `open_registry`: opens objects by key, each once, several at the same time;
- `lakebed.base.simulation.scheduler`: the deterministic runner, driven by a seed.
"""

from lakebed.base.runner.protocol import Computation, Event, Mutex, Runner, Step, Task
from lakebed.base.runner.threads import ThreadRunner

__all__ = ["Computation", "Event", "Mutex", "Runner", "Step", "Task", "ThreadRunner"]
