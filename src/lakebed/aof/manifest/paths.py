"""The folder of a manifest log, `manifest/<stream_id>`, and the file names in it."""

from __future__ import annotations

import os
import re
from enum import Enum
from typing import NamedTuple

from lakebed.base.files import TEMPORARY_SUFFIX, ReadableDisk

CHUNK_SUFFIX = ".mlog"
_CHUNK = re.compile(r"(\d{20})\.mlog", re.ASCII)
_SNAPSHOT = re.compile(r"snapshot_(\d{20})\.bin", re.ASCII)
_STREAM = re.compile(r"[0-9a-f]{16}", re.ASCII)


def stream_name(stream_id: int) -> str:
    """Returns the text form of a stream id: 16 hex digits."""
    return f"{stream_id:016x}"


def parse_stream_name(name: str) -> int | None:
    return int(name, 16) if _STREAM.fullmatch(name) else None


class FileKind(Enum):
    CHUNK = "chunk"
    SNAPSHOT = "snapshot"


class FileName(NamedTuple):
    kind: FileKind
    number: int  # the chunk's index, or the snapshot's id


def parse_file_name(name: str) -> FileName | None:
    """Parses the name of a chunk or snapshot file; returns None for any other name."""
    for kind, pattern in ((FileKind.CHUNK, _CHUNK), (FileKind.SNAPSHOT, _SNAPSHOT)):
        if match := pattern.fullmatch(name):
            return FileName(kind, int(match[1]))
    return None


class ManifestPaths:
    """The paths of a manifest log's files.

    The numbers in their names have 20 digits, so that names sort in log order.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def chunk(self, index: int) -> str:
        return os.path.join(self.folder, f"{index:020}{CHUNK_SUFFIX}")

    def unnamed_chunk(self, index: int) -> str:
        """Returns the temporary path that a chunk has until its first commit."""
        return self.chunk(index) + TEMPORARY_SUFFIX

    def snapshot(self, snapshot_id: int) -> str:
        return os.path.join(self.folder, f"snapshot_{snapshot_id:020}.bin")

    def file(self, name: FileName) -> str:
        is_chunk = name.kind is FileKind.CHUNK
        return self.chunk(name.number) if is_chunk else self.snapshot(name.number)

    def chunk_indexes(self, disk: ReadableDisk) -> list[int]:
        return self._numbers(disk, _CHUNK)

    def snapshot_ids(self, disk: ReadableDisk) -> list[int]:
        return self._numbers(disk, _SNAPSHOT)

    def file_names(self, disk: ReadableDisk) -> list[str]:
        """Returns the sorted file names in the folder; empty if the folder does not exist."""
        return sorted(disk.names(self.folder)) if disk.exists(self.folder) else []

    def _numbers(self, disk: ReadableDisk, pattern: re.Pattern[str]) -> list[int]:
        matches = (pattern.fullmatch(name) for name in self.file_names(disk))
        return sorted(int(match[1]) for match in matches if match)
