"""A multipart upload, for a program that embeds the store.

upload = bucket.upload("backup.tar")
for number, piece in enumerate(pieces, 1):
    upload.put(number, piece)
upload.complete()
"""

from __future__ import annotations

from lakebed.seglake.body import Source
from lakebed.seglake.model import Condition, ObjectInfo
from lakebed.seglake.multipart import NamedPart, Uploads
from lakebed.seglake.upload_rows import PartInfo, UploadInfo


class Upload:
    """A multipart upload. Thread-safe: many threads may put parts, in any order."""

    def __init__(self, uploads: Uploads, info: UploadInfo) -> None:
        self.info = info
        self._uploads = uploads

    def put(self, number: int, source: Source) -> PartInfo:
        """Store a part, or replace the part that has this number.

        `complete` raises `PartTooSmall` if a part other than the last is smaller than the minimum
        (`part_bytes_min`, by default 5 MiB).
        """
        info = self.info
        return self._uploads.put_part(info.bucket, info.key, info.upload_id, number, source)

    def parts(self) -> list[PartInfo]:
        """Return the parts that were uploaded, ordered by number."""
        info = self.info
        parts: list[PartInfo] = []
        after: int | None = 0
        while after is not None:
            page = self._uploads.parts(info.bucket, info.key, info.upload_id, after=after)
            parts += page.parts
            after = page.next_number
        return parts

    def complete(
        self, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> ObjectInfo:
        """Complete the upload: create the object from all parts that were uploaded."""
        info = self.info
        parts = [NamedPart(part.number, part.etag) for part in self.parts()]
        condition = Condition(if_match=if_match, if_none_match=if_none_match)
        return self._uploads.complete(
            info.bucket, info.key, info.upload_id, parts, condition=condition
        )

    def abort(self) -> None:
        info = self.info
        self._uploads.abort(info.bucket, info.key, info.upload_id)
