"""For all tests: how Hypothesis searches, how and where Spark runs, what is listed at the end."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from lakebed.base.simulation.scheduler import killing_all
from tests import java
from tests.scheduling import BySession
from tests.temporary import use_memory
from tests.thorough import is_thorough
from tests.tidy.repository import FILE_LINES_MAX, FUNCTION_LINES_MAX, ROOT, modules
from tests.tidy.scan import long_functions

SLOW_TIMEOUT_S: Final = 7200

# The same examples in every run, and nothing that depends on how fast the machine is today. The
# slow tests search elsewhere each time; a failure prints how to repeat it.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.register_profile("repeatable", _UNTIMED, derandomize=True)
settings.register_profile("searching", _UNTIMED, print_blob=True, max_examples=1000)
settings.load_profile(os.environ.get("LAKEBED_HYPOTHESIS", "repeatable"))


def pytest_configure() -> None:
    """A run that a shell put into the background ignores interrupts, and so would the programs
    that the tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(java.ENVIRONMENT)
    use_memory()


@pytest.hookimpl(tryfirst=True)  # before they are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is thorough, give what is slow its time, and begin with what takes long, so that no
    process ends with it while the others have nothing left."""
    for item in items:
        if is_thorough(item.path.relative_to(ROOT / "tests").as_posix()):
            item.add_marker(pytest.mark.thorough)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("spark", "build"))))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BySession:
    return BySession(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """What a test left in a simulated machine ends with it."""
    with killing_all():
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List, without failing, files and functions grown past what reads comfortably."""
    lines = []
    for path in modules():
        source = path.read_text(encoding="utf-8")
        place = path.relative_to(ROOT)
        if source.count("\n") > FILE_LINES_MAX:
            lines.append(f"{place}: {source.count(chr(10))} lines")
        lines += [
            f"{place}: {name}() has {length} lines"
            for name, length in long_functions(source, lines_max=FUNCTION_LINES_MAX)
        ]
    if lines:
        terminalreporter.section("long files and functions", sep="-")
        for line in lines:
            terminalreporter.write_line(line)
