"""Lists and fetches the files of a remote manifest log."""

from __future__ import annotations

from lakebed.aof.manifest.files import ManifestFile
from lakebed.aof.manifest.paths import parse_file_name
from lakebed.api import manifests as wire
from lakebed.base.units import MIB
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.client.segment_range import SegmentRange, range_of

FETCH_BYTES = 8 * MIB  # per response


class ManifestFiles:
    """The files of one manifest log. Thread-safe."""

    def __init__(self, caller: Caller, log: str) -> None:
        self._caller = caller
        self._log = log

    def list(self) -> list[ManifestFile]:
        """Lists all files of the manifest log, sorted by name."""
        files: list[ManifestFile] = []
        after: str | None = ""
        while after is not None:
            page = self._caller.call(
                wire.LOG_MANIFEST, {"log": self._log}, query=wire.FilesQuery(after=after)
            )
            for file in page.files:
                _check_name(file)
            files += page.files
            if page.next_after is not None and page.next_after <= after:
                raise BadAnswer(
                    f"{wire.LOG_MANIFEST.name}: the server returned the same page again"
                )
            after = page.next_after
        return files

    def fetch(self, name: str, *, offset: int, length: int) -> SegmentRange:
        """Returns up to `length` bytes of a file from `offset` on. Raises `NotFound` if the file
        was removed."""
        answer = self._caller.ask(
            wire.LOG_MANIFEST_BYTES,
            {"log": self._log, "file": name},
            query=wire.FileRangeQuery(offset=offset, length=length),
        )
        return range_of(answer, wire.LOG_MANIFEST_BYTES.name, offset=offset)


def _check_name(file: ManifestFile) -> None:
    if parse_file_name(file.name) != (file.kind, file.number):
        raise BadAnswer(
            f"{wire.LOG_MANIFEST.name}: the response lists a file whose name is not valid, or does "
            "not match its kind and number"
        )
