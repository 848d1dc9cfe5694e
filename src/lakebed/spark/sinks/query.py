"""How a task is told which query it works for, and which batch of it: Spark's local properties."""

from __future__ import annotations

from typing import Final

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
