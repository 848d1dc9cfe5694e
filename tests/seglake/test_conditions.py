"""Conditions of a read, in the order HTTP looks at them."""

from __future__ import annotations

import pytest

from lakebed.seglake.conditions import NotModified, ReadCondition
from lakebed.seglake.errors import PreconditionFailed

MODIFIED_MS = 10_500
BEFORE_MS, THEN_MS, AFTER_MS = 9_000, 10_000, 11_000  # the headers know whole seconds


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        (ReadCondition(), None),
        (ReadCondition(if_match=("e",)), None),
        (ReadCondition(if_match=("x", "e")), None),
        (ReadCondition(if_match=("*",)), None),
        (ReadCondition(if_match=("x",)), PreconditionFailed),
        (ReadCondition(if_none_match=("x",)), None),
        (ReadCondition(if_none_match=("e",)), NotModified),
        (ReadCondition(if_none_match=("*",)), NotModified),
        (ReadCondition(if_modified_since_ms=BEFORE_MS), None),
        (ReadCondition(if_modified_since_ms=THEN_MS), NotModified),
        (ReadCondition(if_modified_since_ms=AFTER_MS), NotModified),
        (ReadCondition(if_unmodified_since_ms=BEFORE_MS), PreconditionFailed),
        (ReadCondition(if_unmodified_since_ms=THEN_MS), None),
        (ReadCondition(if_unmodified_since_ms=AFTER_MS), None),
        # An ETag that is asked about replaces the time.
        (ReadCondition(if_match=("e",), if_unmodified_since_ms=BEFORE_MS), None),
        (ReadCondition(if_none_match=("x",), if_modified_since_ms=AFTER_MS), None),
        (ReadCondition(if_none_match=("e",), if_modified_since_ms=BEFORE_MS), NotModified),
        (ReadCondition(if_match=("x",), if_none_match=("e",)), PreconditionFailed),
    ],
    ids=str,
)
def test_what_a_condition_says(condition: ReadCondition, error: type[Exception] | None) -> None:
    if error is None:
        condition.check(etag="e", modified_ms=MODIFIED_MS)
    else:
        with pytest.raises(error):
            condition.check(etag="e", modified_ms=MODIFIED_MS)
