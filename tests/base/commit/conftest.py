"""The runner of tests with real threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakebed.base.runner import ThreadRunner


@pytest.fixture
def runner() -> Iterator[ThreadRunner]:
    with ThreadRunner() as runner:
        yield runner
