"""Lists the files of a manifest log with their sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.aof.manifest.chunk import decode_header
from lakebed.aof.manifest.format import CHUNK_HEADER, FLAG_SEALED
from lakebed.aof.manifest.paths import FileKind, FileName, ManifestPaths, parse_file_name
from lakebed.base.errors import DataError, NotFound
from lakebed.base.files import ReadableDisk, ReadableFile


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file of a manifest log.

    A sealed chunk no longer changes, except that its upload to Tier 2 sets a flag in its header.
    """

    name: str
    kind: FileKind
    number: int  # the chunk's index, or the snapshot's id
    size: int
    committed_bytes: int | None  # from the chunk's header; None if that is unreadable
    is_sealed: bool


def list_files(
    disk: ReadableDisk, paths: ManifestPaths, *, after: str = ""
) -> Iterator[ManifestFile]:
    """Yields the files whose names sort after `after`, in name order: chunks, then snapshots.

    Skips files that are removed during the listing.
    """
    for name in paths.file_names(disk):
        parsed = parse_file_name(name)
        if parsed is None or name <= after:
            continue
        try:
            with disk.open(paths.file(parsed)) as file:
                yield _manifest_file(name, parsed, file)
        except NotFound:
            continue


def _manifest_file(name: str, parsed: FileName, file: ReadableFile) -> ManifestFile:
    kind, number = parsed
    size = file.size()
    if kind is FileKind.SNAPSHOT:  # written once, as a whole
        return ManifestFile(name, kind, number, size, size, is_sealed=True)
    try:
        header = decode_header(memoryview(file.pread(0, CHUNK_HEADER.size)), number)
    except DataError:
        return ManifestFile(name, kind, number, size, None, is_sealed=False)
    is_sealed = bool(header.flags & FLAG_SEALED)
    return ManifestFile(name, kind, number, size, header.committed_len, is_sealed)
