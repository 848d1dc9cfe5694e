"""Markdown: pages, tables, and text that is shown as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MADE = "<!-- Generated from the code by `make reference`: do not edit. -->"
_CODE = re.compile(r"(`[^`]*`)")
_MARKS = re.compile(r"([\\*<\[\]])")


def page(title: str, *blocks: str) -> str:
    """`blocks` are paragraphs, headings, tables: a blank line goes between two."""
    return "\n\n".join([f"# {title}", _MADE, *filter(None, blocks)]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are Markdown already; a bar in one does not end it."""
    lines = [_row(headings), _row(["---"] * len(headings))]
    lines += [_row([cell.replace("|", "\\|") for cell in row]) for row in rows]
    return "\n".join(lines)


def code(text: str) -> str:
    """Nothing of nothing."""
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    return ", ".join(map(code, texts))


def fenced(text: str, *, language: str = "") -> str:
    return f"```{language}\n{text}\n```"


def plain(text: str) -> str:
    """Prose of the code, on one line: what is between backticks stays, nothing else is a mark."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") else _MARKS.sub(r"\\\1", part) for part in parts)


def anchor(heading: str) -> str:
    """What a heading is linked by."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
