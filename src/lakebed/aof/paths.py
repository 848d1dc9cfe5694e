"""The folder of a log and the file names in it."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from lakebed.base.errors import BadName
from lakebed.base.files import Disk, PathLike, make_folders

_SEGMENT = re.compile(r"(\d{20})_(\d{20})_(\d{20})\.seg", re.ASCII)
_ARCHIVED = re.compile(r"(\d{20})_(\d{20})\.seg", re.ASCII)
_LOG_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
SPARE_SUFFIX = ".seg.spare"
_U64_MAX = (1 << 64) - 1


class SegmentName(NamedTuple):
    """The name of a segment file: `{segment_id}_{base_offset}_{created_at}.seg`.

    Each number has 20 digits, so that names sort in log order. `base_offset` is the segment's
    offset in the log, and `created_at` is in ns since 1970.
    """

    segment_id: int
    base_offset: int
    created_at: int

    def __str__(self) -> str:
        return f"{self.segment_id:020}_{self.base_offset:020}_{self.created_at:020}.seg"

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        numbers = _numbers(_SEGMENT, name)
        return cls(*numbers) if numbers else None


class ArchivedName(NamedTuple):
    """The name of a segment file in the archive: `{segment_id}_{sealed_at}.seg`.

    Each number has 20 digits; `sealed_at` is in ns since 1970.
    """

    segment_id: int
    sealed_at: int

    def __str__(self) -> str:
        return f"{self.segment_id:020}_{self.sealed_at:020}.seg"

    @classmethod
    def parse(cls, name: str) -> ArchivedName | None:
        numbers = _numbers(_ARCHIVED, name)
        return cls(*numbers) if numbers else None


def _numbers(pattern: re.Pattern[str], name: str) -> list[int]:
    match = pattern.fullmatch(name)
    numbers = [int(part) for part in match.groups()] if match else []
    return numbers if max(numbers, default=0) <= _U64_MAX else []


class LogPaths:
    """The paths of one log. All except `quarantine` are in `<root>/aof/<log>/`."""

    def __init__(self, root: PathLike, name: str) -> None:
        check_log_name(name)
        self.name = name
        self.folder = os.path.join(os.fspath(root), "aof", name)
        self.segments = os.path.join(self.folder, "segments")
        self.archive = os.path.join(self.folder, "archive")
        self.manifest = os.path.join(self.folder, "manifest")
        self.identity = os.path.join(self.folder, "log.json")
        self.pointer = os.path.join(self.segments, "current.sealed")
        self.durable_end = os.path.join(self.folder, "durable_end")
        self.quarantine = os.path.join(os.fspath(root), "quarantine")
        self.warm = os.path.join(self.folder, "warm")
        self.cursors = os.path.join(self.warm, "durability")

    def segment(self, name: SegmentName) -> str:
        return os.path.join(self.segments, str(name))

    def archived(self, name: ArchivedName) -> str:
        return os.path.join(self.archive, str(name))

    def spare(self, number: int) -> str:
        return os.path.join(self.segments, f"{number:020}{SPARE_SUFFIX}")

    def ensure(self, disk: Disk) -> None:
        """Durably creates the log's folders for segments, the archive and the manifest log.

        Existing folders are left as they are.
        """
        for folder in (self.segments, self.archive, self.manifest):
            make_folders(disk, folder)


def is_log_name(name: str) -> bool:
    return _LOG_NAME.fullmatch(name) is not None


def check_log_name(name: str) -> None:
    """Raises `BadName` unless the name is a valid log name, which is also a safe folder name."""
    if not is_log_name(name):
        raise BadName(
            f"log name {name[:60]!r} is not valid: use at most 200 characters, only letters, "
            "digits, '.', '_' and '-', starting with a letter or digit"
        )
