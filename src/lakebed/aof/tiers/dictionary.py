"""A zstd dictionary, prepared once for all the frames that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.base.errors import BadConfig

if TYPE_CHECKING:
    from pyzstd import ZstdDict


class Dictionary:
    """A loaded dictionary. Thread-safe. Frames and the manifest store its id; 0 means none."""

    def __init__(self, content: bytes) -> None:
        from pyzstd import ZstdDict

        try:
            self._loaded = ZstdDict(content)
        except ValueError as error:
            raise BadConfig(f"the content is not a zstd dictionary: {error}") from None
        self.dictionary_id = self._loaded.dict_id

    @property
    def loaded(self) -> ZstdDict:
        """The dictionary for decompression."""
        return self._loaded

    @property
    def digested(self) -> tuple[ZstdDict, int]:
        """The dictionary for compression, with tables built once instead of for each frame."""
        return self._loaded.as_digested_dict
