"""The interface of the check whether a database that looks new really is new.

It is implemented by code that knows the files which the database describes.
"""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.seglake.meta.reader import Reader


class NewCheck(Protocol):
    """Each method raises if the database cannot be new."""

    def check_file(self) -> None:
        """Checks for a missing file; called before the database is opened."""

    def check_empty(self, *, is_blank: bool) -> None:
        """Checks a database without tables; `is_blank` means that its file is empty."""

    def check_history(self, reader: Reader) -> None:
        """Checks a database with tables."""


class _NoCheck:
    def check_file(self) -> None:
        pass

    def check_empty(self, *, is_blank: bool) -> None:
        pass

    def check_history(self, reader: Reader) -> None:
        pass


NO_CHECK: Final[NewCheck] = _NoCheck()
