"""A few rows of the docs page, ours beside the fastest of the peers, for the README.

    python -m bench --summary README.md

The table stands between two markers. It is made from `docs/benchmarks.md` and measures nothing, so
that the two always agree; a test keeps them so. What is a limit, and no program, is no peer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN: Final = "<!-- figures: made by `python -m bench --summary README.md` -->"
END: Final = "<!-- end of figures -->"

CHOSEN: Final = {
    "aof/durable batch of 1,000, sustained/100 B": "log: append 1,000 x 100 B, durable",
    "aof/read in batches/1 KiB": "log: read 1 KiB records in batches",
    "aof/read at random/100 B": "log: read one record at a random place",
    "topics/durable batch of 1,000, sustained/100 B": "topic: produce 1,000 x 100 B, durable",
    "topics/consume/100 B": "topic: consume 100 B messages",
    "http-api/produce 1,000 x 100 B/16 clients": "over HTTP: produce 1,000 x 100 B, 16 clients",
    "http-api/lease and ack 100/8 clients": "over HTTP: lease and ack 100, 8 clients",
    "s3/PUT 1 KiB/16 clients": "S3: PUT 1 KiB, 16 clients",
    "s3/GET 1 KiB/16 clients": "S3: GET 1 KiB, 16 clients",
    "s3/PUT 16 MiB": "S3: PUT 16 MiB",
    "spark/scan a topic/100 B values": "Spark: scan a topic",
    "spark/land a topic/raw values of 100 B": "Spark: land a topic as a table",
}
"""Rows of the page and what they are called here, in order. What the page lacks is left out."""

_OURS = "lakebed"
_LIMIT = "limit: "
_PREFIXES: Final = {"G": 1e9, "M": 1e6, "k": 1e3}
_CELLS = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| [^|]* \| [^|]* \|$", re.MULTILINE)
_RATE = re.compile(r"([0-9.e+-]+) ([GMk]? ?)(\w[\w-]*)/s")


class Figure(NamedTuple):
    """A contestant of a row, as the page has it."""

    contestant: str
    text: str
    rate: float


def table(page: str) -> str:
    """The chosen rows of a docs page, in Markdown."""
    figures = _figures(page)
    lines = ["| | Lakebed | fastest peer | ratio |", "| --- | ---: | ---: | ---: |"]
    for name, title in CHOSEN.items():
        if name in figures:
            lines.append(_line(name, title, figures[name]))
    return "\n".join(lines) + "\n"


def with_table(text: str, page: str) -> str:
    """The text, with the table of that page between its markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the markers are missing: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table(page)}{END}{after}"


def write(path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    path.write_text(with_table(path.read_text(encoding="utf-8"), page), encoding="utf-8")


def _figures(page: str) -> dict[str, list[Figure]]:
    """By row; contestants that did not run are left out."""
    found: dict[str, list[Figure]] = {}
    for name, contestant, text in _CELLS.findall(page):
        rate = _RATE.fullmatch(text)
        if rate is not None:
            value = float(rate[1]) * _PREFIXES.get(rate[2].strip(), 1.0)
            found.setdefault(name, []).append(Figure(contestant, text, value))
    return found


def _line(name: str, title: str, figures: Sequence[Figure]) -> str:
    ours = [one for one in figures if one.contestant.startswith(_OURS)]
    peers = [one for one in figures if not one.contestant.startswith((_OURS, _LIMIT))]
    if not ours or not peers:
        raise ValueError(f"{name}: a figure of ours and one of a peer are needed")
    mine = next((one for one in ours if one.contestant == _OURS), ours[0])
    best = max(peers, key=lambda one: one.rate)
    ratio = mine.rate / best.rate
    return f"| {title} | {mine.text} | {best.text} ({best.contestant}) | {ratio:.2g} x |"
