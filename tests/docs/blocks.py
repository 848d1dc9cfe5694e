"""The fenced blocks of the pages: what is run, what it prints, and what is said not to be run.

A block of `python` or `sh` is run. Behind its language may stand one mark, which no renderer shows:

    ```sh background    started, and left running until the page ends, or says to stop it
    ```sh not-run       cannot run in a test; `test_snippets.py` has the reason of each

A block of `text` right behind it is what it prints. There `…` stands for the rest of a line or a
part of it, and on a line of its own for any number of lines.
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
    """`number` is the line where it begins, `lead` the text since the block before it, `printed`
    what it is said to print."""

    number: int
    lead: str
    language: str
    mark: str
    text: str
    printed: str | None

    @property
    def stops_node(self) -> bool:
        """Whether the page says so, right before the block."""
        return re.search(r"Stop the node[^.]* with Ctrl-C", self.lead) is not None

    @property
    def is_run(self) -> bool:
        return self.language in RUN and self.mark != "not-run"


def pages() -> list[str]:
    """All pages that people wrote, by their place in the repository."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in found]
    return [name for name in names if not name.startswith(GENERATED)]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    found = list(_FENCE.finditer(text))
    if not found:
        return []
    return [
        Block(
            text.count("\n", 0, match.start()) + 1,
            text[before.end() if before else 0 : match.start()],
            match[1],
            match[2],
            match[3],
            _printed(text, match, behind),
        )
        for before, match, behind in zip(
            [None, *found[:-1]], found, [*found[1:], None], strict=True
        )
    ]


def without_blocks(text: str) -> str:
    return _FENCE.sub("", text)


def is_as_told(printed: str, told: str) -> bool:
    """Whether that is what was said to be printed."""
    return re.fullmatch(_pattern(told), _trimmed(printed)) is not None


def _printed(text: str, match: re.Match[str], behind: re.Match[str] | None) -> str | None:
    if behind is None or behind[1] != "text":
        return None
    return behind[3] if _BETWEEN.fullmatch(text, match.end(), behind.start()) else None


def _pattern(told: str) -> str:
    parts = []
    for line in _trimmed(told).splitlines():
        if line == "…":
            parts.append(r"(?:.*\n)*")
        else:
            parts.append(".*".join(re.escape(part) for part in line.split("…")) + r"\n")
    return "".join(parts)


def _trimmed(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
