"""HTTP APIs of stores whose logs have small segments, and what tests do with such logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakebed.aof.config import AofConfig
from lakebed.aof.record_id import RecordId
from lakebed.api import logs
from lakebed.api.logs import AppendRecords
from lakebed.base.units import KIB
from tests.http_api.live_api import LiveApi

SMALL = AofConfig(segment_bytes=64 * KIB)
ORDERS = {"log": "orders"}


def append(live_api: LiveApi, *payloads: bytes, **fields: Any) -> list[int]:
    return live_api.call(
        logs.APPEND_RECORDS, ORDERS, body=AppendRecords(list(payloads), **fields)
    ).record_ids


def fill(live_api: LiveApi, segments: int, *, size: int = 1000) -> list[bytes]:
    """So many sealed segments with some records each; what is in them."""
    stored: list[bytes] = []
    for number in range(segments):
        payloads = [bytes([65 + number]) * (size + index) for index in range(10)]
        append(live_api, *payloads)
        live_api.call(logs.SEAL_LOG, ORDERS)
        stored += payloads
    return stored


def read_all(live_api: LiveApi, **query: object) -> list[bytes]:
    """Page by page, to the end."""
    found: list[bytes] = []
    position: object = None
    while True:
        page = live_api.call(logs.READ_RECORDS, ORDERS, {"start": position, **query})
        if not page.record_ids:
            return found
        found += page.payloads
        position = page.next


def ids(numbers: Sequence[int]) -> list[str]:
    return [str(RecordId(number)) for number in numbers]
