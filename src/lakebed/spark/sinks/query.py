"""The names of Spark's local properties from which a task learns its query and batch."""

from __future__ import annotations

from typing import Final

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
