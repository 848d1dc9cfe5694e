"""Events carry their name and facts, as text and as values."""

from __future__ import annotations

import logging

import pytest

from lakebed.base.events import event


def test_an_event_is_text_and_values(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("lakebed.test")
    with caplog.at_level(logging.INFO, logger="lakebed.test"):
        event(logger, "segment_sealed", log="orders", segment_id=3)
    (record,) = caplog.records
    assert record.getMessage() == "segment_sealed log=orders segment_id=3"
    assert record.event == "segment_sealed"  # type: ignore[attr-defined]
    assert record.facts == {"log": "orders", "segment_id": 3}  # type: ignore[attr-defined]


def test_an_event_nobody_listens_to_makes_no_text() -> None:
    class Untold:
        def __str__(self) -> str:
            raise AssertionError("made into text for nobody")

    logger = logging.getLogger("lakebed.test.quiet")
    logger.setLevel(logging.ERROR)
    event(logger, "nothing", fact=Untold())
