"""A data source that Spark finds by its name: `format("lakebed")` works without registration.

    spark.read.format("lakebed").option("source", "topic").option("path", root)…

Spark takes one source from a module that it finds this way. The option `source` chooses which
Lakebed source it is; all other options belong to that source.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource

from lakebed.base.errors import BadConfig
from lakebed.spark.registry import SOURCES, source_class

_OPTION = "source"
_PREFIX = "lakebed."


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "lakebed"

    def schema(self) -> Any:
        return self._chosen().schema()

    def reader(self, schema: Any) -> Any:
        return self._chosen().reader(schema)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        return self._chosen().streamReader(schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self._chosen().writer(schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        return self._chosen().streamWriter(schema, overwrite)

    def _chosen(self) -> DataSource:
        options = dict(self.options)
        chosen = _PREFIX + str(options.pop(_OPTION, "")).lower().removeprefix(_PREFIX)
        if chosen not in {name for name, _, _ in SOURCES}:
            known = ", ".join(name.removeprefix(_PREFIX) for name, _, _ in SOURCES)
            raise BadConfig(f"lakebed: the option {_OPTION} must be one of {known}")
        return source_class(chosen)(CaseInsensitiveDict(options))
