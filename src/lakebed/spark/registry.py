"""All data sources, by the names that queries use; given to a session by `register`.

They stand here as text: importing this imports none of them, nor pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lakebed.spark.active_session import activate_in_every_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

PARALLELISM_VARIABLE = "LAKEBED_SPARK_PARALLELISM"  # how many tasks the cluster runs at once

# Name of the source, its module, its class.
SOURCES = (
    ("lakebed.topic", "lakebed.spark.sources.topic", "TopicSource"),
    ("lakebed.aof", "lakebed.spark.sources.aof", "LogSource"),
    ("lakebed.manifest", "lakebed.spark.sources.manifest", "ManifestSource"),
    ("lakebed.objects", "lakebed.spark.sources.objects", "ObjectsSource"),
    ("lakebed.table", "lakebed.spark.sources.table", "TableSource"),
)


def register(session: SparkSession) -> None:
    """Let the session's queries use `format("lakebed.topic")` and the others. Fine if it did."""
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        activate_in_every_thread()
        context = session.sparkContext
        # Reads are planned by processes that know the driver's machine alone.
        context.environment[PARALLELISM_VARIABLE] = str(context.defaultParallelism)
    for name, _, _ in SOURCES:
        session.dataSource.register(source_class(name))


def source_class(name: str) -> type[DataSource]:
    """`KeyError` if there is none of that name."""
    module, class_name = {one[0]: one[1:] for one in SOURCES}[name]
    found: type[DataSource] = getattr(import_module(module), class_name)
    assert found.name() == name, "a source that has another name"
    return found
