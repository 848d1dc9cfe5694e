"""The objects that the parts of one open log share: its paths, settings, state and runner."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aof.config import AofConfig
from lakebed.aof.metrics import LogMetrics
from lakebed.aof.notifier import Notifier
from lakebed.aof.paths import LogPaths
from lakebed.aof.recovery import Recovered
from lakebed.aof.state import LogState
from lakebed.base.clock import Clock
from lakebed.base.counters import Counters
from lakebed.base.files import Disk
from lakebed.base.runner import Runner


class LogContext(NamedTuple):
    """The objects that the parts of an open log share. The log's mutex is part of `state`."""

    disk: Disk
    paths: LogPaths
    config: AofConfig
    runner: Runner
    clock: Clock
    counters: Counters
    metrics: LogMetrics
    notifier: Notifier
    state: LogState


def log_context(
    disk: Disk,
    paths: LogPaths,
    recovered: Recovered,
    *,
    config: AofConfig,
    runner: Runner,
    counters: Counters,
) -> LogContext:
    """Creates the context of a log that was just recovered."""
    return LogContext(
        disk=disk,
        paths=paths,
        config=config,
        runner=runner,
        clock=runner.clock,
        counters=counters,
        metrics=LogMetrics(counters),
        notifier=Notifier(runner),
        state=LogState(recovered, paths=paths, config=config, runner=runner),
    )
