"""Words that make a native reader stop, and what to write instead."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

WORDS: Final = {
    "beside": "while … is running, next to",
    "mend": "fix",
    "mended": "fixed",
    "nobody": "no process, no caller",
    "somebody": "another process, a caller",
    "told": "reported, returned",
    "tells": "reports, returns",
    "whoever": "the caller, the process that",
}

_PATTERN: Final = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)


def odd_words(text: str) -> list[str]:
    """Returns each odd word of the text, with what to write instead."""
    words = (match[1].lower() for match in _PATTERN.finditer(text))
    return [f"{word}: write {WORDS[word]!r}" for word in words]


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yields the comments and texts of a module, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], token.string
