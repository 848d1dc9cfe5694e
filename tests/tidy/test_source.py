"""The package keeps its own rules."""

from __future__ import annotations

import ast

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
