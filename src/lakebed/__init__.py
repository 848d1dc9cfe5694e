"""Lakebed: one log-structured store for Python and Spark.

import lakebed

with lakebed.Store.open("data") as store:
    log = store.log("orders")
    record_id = log.append_record(b"...")
    log.flush(record_id)                       # durable when it returns
    for record in log.read(start=record_id):
        ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.version import VERSION

if TYPE_CHECKING:
    from lakebed.store.store import Store as Store

__version__ = VERSION

__all__ = ["Store", "__version__"]


def __getattr__(name: str) -> object:
    """`Store` is imported when it is asked for: the command line starts without the engines."""
    if name == "Store":
        from lakebed.store.store import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
