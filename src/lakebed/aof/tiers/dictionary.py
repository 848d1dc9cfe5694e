"""A zstd dictionary, loaded once and used for many frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.base.errors import BadConfig

if TYPE_CHECKING:
    from pyzstd import ZstdDict


class Dictionary:
    """A loaded zstd dictionary. Thread-safe.

    Frames and the manifest log store the id of the dictionary they need; 0 means none.
    """

    def __init__(self, content: bytes) -> None:
        from pyzstd import ZstdDict

        try:
            self._loaded = ZstdDict(content)
        except ValueError as error:
            raise BadConfig(f"the given bytes are not a zstd dictionary: {error}") from None
        self.dictionary_id = self._loaded.dict_id

    @property
    def loaded(self) -> ZstdDict:
        """The dictionary in the form for decompression."""
        return self._loaded

    @property
    def digested(self) -> tuple[ZstdDict, int]:
        """The dictionary in the form for compression, with tables that are built only once."""
        return self._loaded.as_digested_dict
