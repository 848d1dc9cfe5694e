"""The table of errors in the guide of the HTTP API is the one that counts."""

from __future__ import annotations

import re
from pathlib import Path

from lakebed.api.problems import ADVICE, STATUSES

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "http-api.md").read_text(encoding="utf-8")


def error_rows() -> list[str]:
    """By status: the errors that are told with it, and the advice of each."""
    rows = []
    for status in sorted(set(STATUSES.values())):
        kinds = [kind for kind, its in STATUSES.items() if its == status]
        advice = dict.fromkeys(
            next(ADVICE[one] for one in kind.__mro__ if one in ADVICE) for kind in kinds
        )
        names = ", ".join(f"`{kind.__name__}`" for kind in kinds)
        rows.append(f"| {status} | {names} | {'; or '.join(advice)} |")
    return rows


def test_the_table_of_errors_is_the_one_that_counts() -> None:
    shown = re.findall(r"^\| \d{3} \|.*$", TEXT, flags=re.MULTILINE)
    assert shown == error_rows()
