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
    assert len(numbers) == 6
    assert all(float(number.replace(",", "")) > 0 for number in numbers)


def test_the_ratios_of_a_pair_are_below_one_when_it_got_slower() -> None:
    pair = compare.Pair(
        before=compare.Turn(rate=200.0, processor_s=0.001),
        after=compare.Turn(rate=100.0, processor_s=0.004),
    )

    assert pair.ratio == 0.5
    assert pair.processor_ratio == 0.25
