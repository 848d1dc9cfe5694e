"""The fenced blocks of the pages, with their marks and expected output.

Blocks of `python` and `sh` are run. One mark can follow the language; renderers do not show it:

    ```sh background    started, and left running until the end of the page, or until it is stopped
    ```sh not-run       cannot run in a test; `test_snippets.py` has the reason for each

A `text` block that follows is the expected output. In it `…` stands for any part of a line, and on
a line of its own for any number of lines.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RUN = frozenset({"python", "sh"})
SHOWN = frozenset({"", "text", "toml", "json", "yaml"})
MARKS = frozenset({"", "background", "not-run"})
GENERATED = "docs/reference"  # its test compares it with the code

_FENCE = re.compile(r"^```(\S*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BETWEEN = re.compile(r"\s*")


class Block(NamedTuple):
    """`number` is its first line, `lead` the text since the previous block, `printed` the expected
    output."""

    number: int
    lead: str
    language: str
    mark: str
    text: str
    printed: str | None

    @property
    def stops_node(self) -> bool:
        """Whether the text right before the block asks for it."""
        return re.search(r"Stop the node[^.]* with Ctrl-C", self.lead) is not None

    @property
    def is_run(self) -> bool:
        return self.language in RUN and self.mark != "not-run"


def pages() -> list[str]:
    """All pages that are not generated, by their path in the repository."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    return [name for name in names if not name.startswith(GENERATED)]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    matches = list(_FENCE.finditer(text))
    if not matches:
        return []
    return [
        Block(
            text.count("\n", 0, match.start()) + 1,
            text[before.end() if before else 0 : match.start()],
            match[1],
            match[2],
            match[3],
            _printed(text, match, following),
        )
        for before, match, following in zip(
            [None, *matches[:-1]], matches, [*matches[1:], None], strict=True
        )
    ]


def without_blocks(text: str) -> str:
    return _FENCE.sub("", text)


def matches_expected(printed: str, expected: str) -> bool:
    return re.fullmatch(_pattern(expected), _trimmed(printed)) is not None


def _printed(text: str, match: re.Match[str], following: re.Match[str] | None) -> str | None:
    if following is None or following[1] != "text":
        return None
    return following[3] if _BETWEEN.fullmatch(text, match.end(), following.start()) else None


def _pattern(expected: str) -> str:
    parts = []
    for line in _trimmed(expected).splitlines():
        if line == "…":
            parts.append(r"(?:.*\n)*")
        else:
            parts.append(".*".join(re.escape(part) for part in line.split("…")) + r"\n")
    return "".join(parts)


def _trimmed(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
