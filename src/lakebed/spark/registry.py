"""The names under which queries use Lakebed's data sources. `register` adds the sources to a
session.

`SOURCES` has the modules by name, so importing this module imports neither the sources nor pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lakebed.spark.active_session import activate_in_every_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

PARALLELISM_VARIABLE = "LAKEBED_SPARK_PARALLELISM"  # how many tasks the cluster runs at once

# The name of the source, its module, its class.
SOURCES = (
    ("lakebed.topic", "lakebed.spark.sources.topic", "TopicSource"),
    ("lakebed.aof", "lakebed.spark.sources.aof", "LogSource"),
    ("lakebed.manifest", "lakebed.spark.sources.manifest", "ManifestSource"),
    ("lakebed.objects", "lakebed.spark.sources.objects", "ObjectsSource"),
    ("lakebed.table", "lakebed.spark.sources.table", "TableSource"),
)


def register(session: SparkSession) -> None:
    """Lets the session's queries use `format("lakebed.topic")` and the other data sources.

    Calling it again for the same session is harmless.
    """
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        activate_in_every_thread()
        context = session.sparkContext
        # The processes that plan reads cannot find out the parallelism of the cluster.
        context.environment[PARALLELISM_VARIABLE] = str(context.defaultParallelism)
    for name, _, _ in SOURCES:
        session.dataSource.register(source_class(name))


def source_class(name: str) -> type[DataSource]:
    """Returns the class of the data source with this name. Raises `KeyError` for an unknown
    name.
    """
    module, class_name = {source[0]: source[1:] for source in SOURCES}[name]
    source_type: type[DataSource] = getattr(import_module(module), class_name)
    assert source_type.name() == name, "the source declares another name"
    return source_type
