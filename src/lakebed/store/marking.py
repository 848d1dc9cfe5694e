"""Having damaged objects marked by whoever has the store open: here, or over the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.client.store import RemoteStore
from lakebed.store.damage_marks import MarkReport, NamedVersion, mark_damaged
from lakebed.store.store import Store
from lakebed.store.work_documents import report_of
from lakebed.store.works import VERSIONS_MAX


def mark_through(
    store: Store | RemoteStore,
    versions: Sequence[NamedVersion],
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> MarkReport:
    """`progress` is told how many of how many were looked at."""
    if isinstance(store, Store):
        return mark_damaged(store, versions, progress=progress)
    report = MarkReport()
    for start in range(0, len(versions), VERSIONS_MAX):
        some = versions[start : start + VERSIONS_MAX]
        document = store.work("objects-mark", {"versions": [list(one) for one in some]})
        report = report.joined(report_of(MarkReport, document))
        progress(start + len(some), len(versions))
    return report
