"""The logs, topics and buckets of a store that is open for writing, and facts about the store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreState:
    root: str
    version: str  # of the program
    store_version: int
    process_id: int
    opened_ms: int  # since 1970
    logs: list[str]
    topics: list[str]
    buckets: list[str]
    free_bytes: int
    pins: int  # pins of logs that are in effect; pins of topics are not counted
    created_ms: int = 0  # since 1970
    restored_ms: int = 0  # since 1970; 0 if the store was never restored from a backup
