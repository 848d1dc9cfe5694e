"""The list of what `make check` leaves out names files that there are."""

from __future__ import annotations

from tests.thorough import FILES, QUICK_OF
from tests.tidy.repository import ROOT


def test_every_file_that_is_named_is_there() -> None:
    named = FILES | {f"{folder}/{name}" for folder, names in QUICK_OF.items() for name in names}
    assert [path for path in sorted(named) if not (ROOT / "tests" / path).is_file()] == []
