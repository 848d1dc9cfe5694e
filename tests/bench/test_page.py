"""Rows that are measured again take the place of the old ones on the docs page."""

from __future__ import annotations

from bench.harness import Result, Score
from bench.page import merged
from bench.report import markdown
from bench.row import Contestant, Row, Unavailable


def refuse() -> float:
    raise Unavailable


def result(name: str, rate: float, *, note: str = "") -> Result:
    names = ("ours", "theirs")
    row = Row(
        name=name,
        unit="rows",
        baseline="theirs",
        contestants=[Contestant(one, lambda: refuse) for one in names],
        note=note,
    )
    scores = [Score(contestant=one, rates=[rate], ratio=1.0) for one in names]
    return Result(row=row, scores=scores)


FACTS: dict[str, object] = {"cpu": "fast", "revision": "aaa"}
PAGE = markdown([result("a/one", 1), result("a/one more", 2, note="old"), result("b/x", 3)], FACTS)


def told(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("- later")]


def test_the_same_results_change_no_row() -> None:
    found = merged(PAGE, [result("a/one more", 2, note="old")], {"revision": "bbb"})
    assert found == PAGE.replace(
        "- revision: aaa\n", "- revision: aaa\n- later, at bbb: a/one more\n"
    )


def test_a_row_is_replaced_where_it_was_and_its_note_with_it() -> None:
    found = merged(PAGE, [result("a/one more", 20, note="new")], {"revision": "bbb"})
    assert "| a/one | ours | 1 rows/s |" in found
    assert "| a/one more | ours | 20 rows/s |" in found
    assert found.index("a/one more | theirs") < found.index("b/x | ours")
    assert "- a/one more: new" in found
    assert "old" not in found


def test_a_new_row_comes_to_the_end_of_the_table() -> None:
    found = merged(PAGE, [result("c/y", 4, note="first")], {"revision": "bbb"})
    lines = found.splitlines()
    assert lines.index("| c/y | ours | 4 rows/s | 0% | 1 x |") == 1 + lines.index(
        "| b/x | theirs | 3 rows/s | 0% | baseline |"
    )
    assert lines[-2:] == ["- a/one more: old", "- c/y: first"]


def test_the_last_revision_of_each_kind_is_told() -> None:
    once = merged(PAGE, [result("a/one", 5), result("b/x", 5)], {"revision": "bbb"})
    twice = merged(once, [result("b/x", 6)], {"revision": "ccc"})
    assert told(twice) == ["- later, at bbb: a/one", "- later, at ccc: b/"]
    both = [result("a/one", 7), result("a/one more", 7)]
    thrice = merged(twice, both, {"revision": "ddd"})
    assert told(thrice) == ["- later, at ccc: b/", "- later, at ddd: a/"]


def test_some_rows_of_a_kind_are_told_beside_the_others() -> None:
    once = merged(PAGE, [result("a/one", 5), result("a/one more", 5)], {"revision": "bbb"})
    twice = merged(once, [result("a/one", 6)], {"revision": "ccc"})
    assert told(twice) == ["- later, at bbb: a/", "- later, at ccc: a/one"]
