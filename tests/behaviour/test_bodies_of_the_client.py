"""What the client's own tests say of a store, said of one in another process, too.

Their server is in the tests' process; here it is not, and there is TLS with an access key, also for
the client of event loops. Embedded they run there.
"""

from __future__ import annotations

import inspect
from typing import Final

import pytest

from tests.client import test_groups, test_logs, test_objects, test_store, test_topics

pytestmark = pytest.mark.process

_MODULES: Final = (test_topics, test_groups, test_logs, test_objects, test_store)


@pytest.fixture(params=["socket", "tls", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


for _module in _MODULES:
    _family = _module.__name__.rpartition(".test_")[2]
    for _name, _body in inspect.getmembers(_module, inspect.isfunction):
        _wanted = inspect.signature(_body).parameters.keys() - {"size"}
        if _name.startswith("test_") and _wanted == {"store"}:
            globals()[f"test_{_family}_{_name.removeprefix('test_')}"] = _body


def test_there_are_bodies_of_all_families() -> None:
    found = [name for name in globals() if name.startswith("test_")]
    assert len(found) > 30
