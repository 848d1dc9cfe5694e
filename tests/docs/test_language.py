"""The pages use the words of storage engineers: plain English, no personification."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import pages, text_of, without_blocks

WORDS = {
    "beside": "while … is running, next to",
    "mend": "fix",
    "mended": "fixed",
    "nobody": "no process, no caller",
    "somebody": "another process, a caller",
    "told": "reported, returned",
    "tells": "reports, returns",
    "whoever": "the caller, the process that",
}
"""What to write instead."""

_FOUND = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)


@pytest.mark.parametrize("page", pages())
def test_a_page_uses_plain_words(page: str) -> None:
    text = without_blocks(text_of(page))
    found = [match[1].lower() for match in _FOUND.finditer(text)]
    assert [f"{word}: write {WORDS[word]!r}" for word in found] == []
