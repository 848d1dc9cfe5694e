"""Comparing two trees: pairs are interleaved, and a row appears once with its ratio."""

from __future__ import annotations

import re

import pytest

from bench import compare


@pytest.mark.slow
def test_a_tree_compared_with_its_own_commit_gives_one_line_a_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--base", "HEAD", "--row", "aof/encode/100 B=aof/encode/100 B"]
    options = ["--contestant", "compiled", "--pairs", "2", "--turn-s", "0.01"]

    assert compare.main([*arguments, *options]) == 0

    line = capsys.readouterr().out.splitlines()[-1]
    numbers = re.findall(r"[\d.,]+", line.removeprefix("| aof/encode/100 B |"))
    assert len(numbers) == 5
    assert all(float(number.replace(",", "")) > 0 for number in numbers)


def test_the_ratio_of_a_pair_is_after_over_before() -> None:
    assert compare.Pair(before=200.0, after=100.0).ratio == 0.5
