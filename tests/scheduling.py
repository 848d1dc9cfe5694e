"""Which tests of a run on several processes go to one process together: see `tests.conftest`.

A file's tests do: what its fixtures start is started once. So do all those that need Spark's
session, which takes seconds and much memory; those that start a cluster have no use for it.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

OWN_CLUSTERS: Final = ("tests/spark/test_connect.py", "tests/spark/test_standalone.py")


class BySession(LoadScopeScheduling):  # type: ignore[misc]
    """A scheduler of pytest-xdist."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    path = nodeid.partition("::")[0]
    if path.startswith("tests/spark/") and path not in OWN_CLUSTERS:
        return "tests/spark"
    return path
