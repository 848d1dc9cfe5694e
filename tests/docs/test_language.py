"""The pages use the words of storage engineers: plain English, no personification."""

from __future__ import annotations

import pytest

from tests.docs.blocks import pages, text_of, without_blocks
from tests.tidy.language import odd_words


@pytest.mark.parametrize("page", pages())
def test_a_page_uses_plain_words(page: str) -> None:
    assert odd_words(without_blocks(text_of(page))) == []
