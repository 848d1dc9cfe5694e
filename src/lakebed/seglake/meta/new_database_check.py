"""Whether a database that looks new may be one: decided by whoever knows what it describes."""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.seglake.meta.reader import Reader


class NewCheck(Protocol):
    """Each call raises if the database cannot be new."""

    def check_file(self) -> None:
        """Before the database is opened."""

    def check_empty(self, *, is_blank: bool) -> None:
        """Of a database without tables, or without any byte."""

    def check_history(self, reader: Reader) -> None:
        """Of a database with tables."""


class _NoCheck:
    def check_file(self) -> None:
        pass

    def check_empty(self, *, is_blank: bool) -> None:
        pass

    def check_history(self, reader: Reader) -> None:
        pass


NO_CHECK: Final[NewCheck] = _NoCheck()
