"""A log that takes no more until what it has is durable says so, and what it took before that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.base.errors import TooLarge

pytestmark = pytest.mark.process

SETTINGS = """
[aof_flush]
flush_bytes = "4KiB"
max_unflushed_bytes = "8KiB"
"""
RECORD = b"x" * 3000


@pytest.fixture(autouse=True)
def small_limits(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lakebed.toml").write_text(SETTINGS)


def fill(log: Any) -> None:
    for _ in range(1000):
        log.append_records([RECORD] * 10)


def test_it_is_told_what_is_waited_for_and_what_was_appended(store: Any) -> None:
    log = store.log("orders")
    with pytest.raises(WouldBlock) as told:
        fill(log)
    assert told.value.kind is BackpressureKind.FLUSH
    assert str(told.value).endswith("(waiting for: flush)")
    log.flush()
    stored = [record.record_id for record in log.read()]
    assert stored[len(stored) - len(told.value.record_ids) :] == list(told.value.record_ids)
    more = [log.append_record_with_timeout(RECORD, 60.0) for _ in range(5)]
    log.flush(more[-1])
    assert log.get(more[-1]).payload == RECORD


def test_a_record_that_never_fits_is_too_large(store: Any) -> None:
    log = store.log("orders")
    with pytest.raises(TooLarge) as told:
        log.append_record(bytes(100 << 20))
    assert told.value.size is not None
    assert told.value.size > told.value.limit
    assert list(log.read()) == []
