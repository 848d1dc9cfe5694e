"""All pages, by the names of their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tools.reference import command_line, configuration, formats, http, metrics, python, s3

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "configuration.md": configuration.page,
    "command-line.md": command_line.page,
    "metrics.md": metrics.page,
    "formats.md": formats.page,
    "s3.md": s3.page,
    "http.md": http.page,
    "python.md": python.page,
}
