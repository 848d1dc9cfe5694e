"""The interface for checking whether a metadata database that looks new really is new.

If the store has data although its database looks new, an earlier database was lost. The check is
implemented in `seglake.lost_metadata`, because this package does not know the store's other files.
"""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.seglake.meta.reader import Reader


class NewCheck(Protocol):
    """Checks that raise an error if a database looks new but cannot be new."""

    def check_file(self) -> None:
        """Raises an error if the database file is missing but must exist.

        Called before the database is opened, and before each write transaction.
        """

    def check_empty(self, *, is_blank: bool) -> None:
        """Raises an error if a database without tables must have had tables before.

        `is_blank` means that its file is empty.
        """

    def check_history(self, reader: Reader) -> None:
        """Raises an error if a database with tables records no change although data exists."""


class _NoCheck:
    def check_file(self) -> None:
        pass

    def check_empty(self, *, is_blank: bool) -> None:
        pass

    def check_history(self, reader: Reader) -> None:
        pass


NO_CHECK: Final[NewCheck] = _NoCheck()
