"""Writes the pages that are out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.reference.pages import PAGES

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        path, text = FOLDER / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
