"""Of the tests through the door, `make check` runs those of its core; `make test` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

QUICK = {"test_app.py", "test_budget.py", "test_call.py", "test_router.py", "test_topics.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name not in QUICK:
            item.add_marker(pytest.mark.thorough)
