"""The names of Spark's local properties that give a task the id of its query and the number of
its batch.
"""

from __future__ import annotations

from typing import Final

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
