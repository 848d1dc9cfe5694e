"""The package keeps its own rules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tidy.language import odd_words, prose
from tests.tidy.repository import SOURCE, modules
from tests.tidy.scan import violations


def test_nothing_goes_behind_the_seams() -> None:
    found = [
        str(violation)
        for path in modules()
        for violation in violations(
            path.read_text(encoding="utf-8"), place=path.relative_to(SOURCE).as_posix()
        )
    ]
    assert not found, "\n".join(found)


def test_every_module_has_a_docstring() -> None:
    bare = [
        str(path.relative_to(SOURCE))
        for path in modules()
        if ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert not bare, f"no docstring: {', '.join(bare)}"


def test_every_folder_of_modules_is_a_package() -> None:
    loose = {str(path.parent) for path in modules() if not (path.parent / "__init__.py").exists()}
    assert not loose


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_uses_plain_words(path: Path) -> None:
    """In docstrings, comments, errors and help."""
    source = path.read_text(encoding="utf-8")
    odd = [f"line {line}: {word}" for line, text in prose(source) for word in odd_words(text)]
    assert not odd, "\n".join(odd)


def test_an_odd_word_is_found_in_comments_and_texts_only() -> None:
    source = 'told = 1  # somebody asked\nraise Error("mended, whoever did it")\n'
    words = [word.partition(":")[0] for _, text in prose(source) for word in odd_words(text)]
    assert words == ["somebody", "mended", "whoever"]
