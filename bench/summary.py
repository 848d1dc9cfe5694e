"""Puts selected benchmark rows into the README: Lakebed and its fastest peer, each with its spread.

    python -m bench --summary README.md

The table goes between two markers. It is copied from `docs/benchmarks.md` without measuring
anything, and a test checks that the two agree. Rows named `limit: …` are not peers.
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
"""Rows of the page and their titles in the README, in order. Rows not on the page are left out."""

_OURS = "lakebed"
_LIMIT = "limit: "
_PREFIXES: Final = {"G": 1e9, "M": 1e6, "k": 1e3}
_CELLS = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]*) \| [^|]* \|$", re.MULTILINE)
_RATE = re.compile(r"([0-9.e+-]+) ([GMk]? ?)(\w[\w-]*)/s")


class Figure(NamedTuple):
    """One contestant of a row, as the page shows it."""

    contestant: str
    text: str
    spread: str
    rate: float


def table(page: str) -> str:
    """Returns the chosen rows of a docs page as a Markdown table."""
    figures = _figures(page)
    lines = [
        "| | Lakebed | spread | fastest peer | spread | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, title in CHOSEN.items():
        if name in figures:
            lines.append(_line(name, title, figures[name]))
    return "\n".join(lines) + "\n"


def with_table(text: str, page: str) -> str:
    """Replaces what is between the markers of `text` with the table of `page`."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the markers are missing: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table(page)}{END}{after}"


def write(path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    path.write_text(with_table(path.read_text(encoding="utf-8"), page), encoding="utf-8")


def _figures(page: str) -> dict[str, list[Figure]]:
    """Figures by row. Contestants that did not run are left out."""
    figures: dict[str, list[Figure]] = {}
    for name, contestant, text, spread in _CELLS.findall(page):
        rate = _RATE.fullmatch(text)
        if rate is not None:
            value = float(rate[1]) * _PREFIXES.get(rate[2].strip(), 1.0)
            figures.setdefault(name, []).append(Figure(contestant, text, spread.strip(), value))
    return figures


def _line(name: str, title: str, figures: Sequence[Figure]) -> str:
    ours = [figure for figure in figures if figure.contestant.startswith(_OURS)]
    peers = [figure for figure in figures if not figure.contestant.startswith((_OURS, _LIMIT))]
    if not ours or not peers:
        raise ValueError(f"{name}: needs a figure of Lakebed and one of a peer")
    mine = next((figure for figure in ours if figure.contestant == _OURS), ours[0])
    best = max(peers, key=lambda figure: figure.rate)
    cells = (
        title,
        mine.text,
        mine.spread,
        f"{best.text} ({best.contestant})",
        best.spread,
        f"{mine.rate / best.rate:.2g} x",
    )
    return f"| {' | '.join(cells)} |"
