"""Lets every Python thread write to Lakebed's Spark sinks, not only the thread that created the
session.

Spark 4.3.0 looks up the sink of `df.write…save()` and `df.writeStream…start()` only in the active
session of the calling thread. pyspark sets the active session only in the thread that created the
session; in other threads the sink is not found (`ClassNotFoundException`). So this module wraps
both methods: the wrappers make the writer's session active in the calling thread first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def activate_in_every_thread() -> None:
    """Wraps pyspark's `DataFrameWriter.save` and `DataStreamWriter.start` so that they work in
    every thread.

    The wrapper first makes the writer's session the active session of the calling thread. Calling
    this function again changes nothing.
    """
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for writer, name in ((DataFrameWriter, "save"), (DataStreamWriter, "start")):
        method = getattr(writer, name)
        if not hasattr(method, "__wrapped__"):
            setattr(writer, name, _activating(method))


def _activating(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def run(writer: Any, *args: Any, **named: Any) -> Any:
        spark = writer._spark
        spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        return method(writer, *args, **named)

    return run
