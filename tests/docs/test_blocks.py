"""Blocks are found in a page, with their marks and what they print."""

from __future__ import annotations

import pytest

from tests.docs.blocks import blocks, matches_expected, without_blocks

PAGE = """\
# A page

```python
print(1)
```

```text
1
```

Words.

```text
not of a block
```

```sh background
lakebed serve
```
Words between.
```text
no
```
```sh not-run
make
```
"""


def test_blocks_have_their_line_language_mark_and_text() -> None:
    found = [block for block in blocks(PAGE) if block.language != "text"]
    assert [(block.number, block.language, block.mark) for block in found] == [
        (3, "python", ""),
        (17, "sh", "background"),
        (24, "sh", "not-run"),
    ]
    assert [block.text for block in found] == ["print(1)\n", "lakebed serve\n", "make\n"]
    assert [block.is_run for block in found] == [True, True, False]


def test_the_expected_output_follows_its_block() -> None:
    printed = [block.printed for block in blocks(PAGE) if block.language != "text"]
    assert printed == ["1\n", None, None]


def test_the_text_of_a_page_is_what_is_left() -> None:
    assert without_blocks(PAGE).split() == ["#", "A", "page", "Words.", "Words", "between."]


@pytest.mark.parametrize(
    ("printed", "expected", "does_match"),
    [
        ("a 17 b\n", "a … b\n", True),
        ("a 17 c\n", "a … b\n", False),
        ("a\n17\n18\nb\n", "a\n…\nb\n", True),
        ("a\nb\n", "a\n…\nb\n", True),
        ("a\nb\nc\n", "a\nb\n", False),
        ("a  \nb", "a\nb\n", True),
        ("(1)\n", "(1)\n", True),
        ("x\n", "…\n", True),
        ("", "a\n", False),
    ],
)
def test_dots_stand_for_what_differs_each_time(
    printed: str, expected: str, does_match: bool
) -> None:
    assert matches_expected(printed, expected) is does_match
