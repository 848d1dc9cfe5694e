"""A zstd dictionary, made ready once for all the frames it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.base.errors import BadConfig

if TYPE_CHECKING:
    from pyzstd import ZstdDict


class Dictionary:
    """Thread-safe. Its number stands in the frames and in the manifest; 0 there means none."""

    def __init__(self, content: bytes) -> None:
        from pyzstd import ZstdDict

        try:
            self._loaded = ZstdDict(content)
        except ValueError as error:
            raise BadConfig(f"not a zstd dictionary: {error}") from None
        self.dictionary_id = self._loaded.dict_id

    @property
    def loaded(self) -> ZstdDict:
        """For decompression."""
        return self._loaded

    @property
    def digested(self) -> tuple[ZstdDict, int]:
        """For compression: its tables are built once, not for each frame."""
        return self._loaded.as_digested_dict
