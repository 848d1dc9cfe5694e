"""Lakebed: one log-structured store for Python and Spark.

import lakebed

with lakebed.Store.open("data") as store:
    log = store.log("orders")
    record_id = log.append_record(b"...")
    log.flush(record_id)                       # durable when it returns
    for record in log.read(start=record_id):
        ...

with lakebed.connect("data") as store:         # also beside a program that has it open
    store.topic("orders").append_batch([b"..."]).result()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.version import VERSION

if TYPE_CHECKING:
    from lakebed.store.connect import connect as connect
    from lakebed.store.store import Store as Store

__version__ = VERSION

__all__ = ["Store", "__version__", "connect"]


def __getattr__(name: str) -> object:
    """Imported when they are asked for: the command line starts without the engines."""
    if name == "Store":
        from lakebed.store.store import Store

        return Store
    if name == "connect":
        from lakebed.store.connect import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
