"""A terminal that keeps what was drawn on it."""

from __future__ import annotations

import io
import re

_STYLE = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh])")
_ERASE = "\x1b[2K"


class Terminal(io.StringIO):
    """Set `TERM` for it: a terminal without a name is taken for one that cannot erase a line."""

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        """The line that is there now, without its colours."""
        return _STYLE.sub("", self.getvalue()).rpartition(_ERASE)[2].strip()
