"""The client for event loops is what `tools/asynced.py` makes of the other one."""

from __future__ import annotations

from tools.asynced import SOURCE, made_files

BY_HAND = {"__init__", "manifest_log", "sockets", "undo_on_cancel"}


def test_what_is_made_is_as_it_is_made_now() -> None:
    old = [
        path.name
        for path, content in made_files().items()
        if not path.exists() or path.read_text() != content
    ]
    assert not old, f"{old}: run `make reference`"


def test_nothing_else_is_in_its_folder() -> None:
    made = {path.stem for path in made_files() if path.parent.name == "client"}
    assert {path.stem for path in (SOURCE / "aio" / "client").glob("*.py")} == made | BY_HAND
