"""The interface for checking whether a metadata database that looks new really is new.

If objects exist that it should describe, an earlier database was lost. The check is implemented
elsewhere (`lost_metadata`), because this package does not know the other files of a store.
"""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.seglake.meta.reader import Reader


class NewCheck(Protocol):
    """Checks that raise an error if a database looks new but cannot be new."""

    def check_file(self) -> None:
        """Raises if the database file is missing but must exist.

        Called before the database is opened, and before each write transaction.
        """

    def check_empty(self, *, is_blank: bool) -> None:
        """Raises if a database without tables must have had some.

        `is_blank` means that its file is empty.
        """

    def check_history(self, reader: Reader) -> None:
        """Raises if a database with tables records no change, but must have recorded some."""


class _NoCheck:
    def check_file(self) -> None:
        pass

    def check_empty(self, *, is_blank: bool) -> None:
        pass

    def check_history(self, reader: Reader) -> None:
        pass


NO_CHECK: Final[NewCheck] = _NoCheck()
