"""The paths and file names of a topic and its partitions.

<root>/topics/<topic>/topic.json
<root>/topics/<topic>/<partition>/{manifest.bin, durable_end, checkpoint, …, segments/}
…/segments/{base:020}.{log,idx,tidx,producers}
"""

from __future__ import annotations

import os
import re
from enum import Enum

from lakebed.base.errors import BadName, InputError
from lakebed.base.files import Disk, PathLike, make_folders
from lakebed.kernels.checksum import blake3

TOPICS_NAME = "topics"
IDENTITY_NAME = "topic.json"
SEGMENTS_NAME = "segments"
PARTITIONS_MAX = 10_000  # of an existing topic
PARTITIONS_CREATED_MAX = 1000  # of a new topic: each takes descriptors and time to open

_SAVED_TOPIC_MAX = 120  # characters of a topic's name in the name of a file in the quarantine

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_SEGMENT = re.compile(r"(\d{20})\.(log|idx|tidx|producers)", re.ASCII)
_PARTITION = re.compile(r"0|[1-9]\d{0,4}", re.ASCII)


class SegmentFile(Enum):
    """The files of a segment, by their file name extension."""

    LOG = "log"
    INDEX = "idx"
    TIME_INDEX = "tidx"
    PRODUCERS = "producers"


class TopicPaths:
    """The paths of a topic's files, all below `<root>/topics/<topic>/`."""

    def __init__(self, root: PathLike, topic: str) -> None:
        check_topic_name(topic)
        self.root = os.fspath(root)
        self.topic = topic
        self.folder = os.path.join(self.root, TOPICS_NAME, topic)
        self.identity = os.path.join(self.folder, IDENTITY_NAME)

    def partition(self, number: int) -> PartitionPaths:
        return PartitionPaths(self, number)

    def partitions(self, disk: Disk) -> list[int]:
        """Returns the sorted numbers of the partitions that have a folder."""
        names = [name for name in disk.names(self.folder) if _PARTITION.fullmatch(name)]
        return sorted(int(name) for name in names)


class PartitionPaths:
    """The paths of a partition's files, most of them below `<root>/topics/<topic>/<partition>/`."""

    def __init__(self, topic: TopicPaths, number: int) -> None:
        check_partition(number)
        self.root = topic.root
        self.topic = topic.topic
        self.number = number
        self.name = f"{topic.topic}-{number}"
        self.folder = os.path.join(topic.folder, str(number))
        self.segments = os.path.join(self.folder, SEGMENTS_NAME)
        self.manifest = os.path.join(self.folder, "manifest.bin")
        self.durable_end = os.path.join(self.folder, "durable_end")
        self.checkpoint = os.path.join(self.folder, "checkpoint")
        self.ledger = os.path.join(self.folder, "commits.json")
        self.commit = os.path.join(self.folder, "commit.bin")
        self.quarantine = os.path.join(topic.root, "quarantine")

    def segment(self, base_offset: int, file: SegmentFile) -> str:
        return os.path.join(self.segments, f"{base_offset:020}.{file.value}")

    def saved_name(self, what: str, *, checksum: int) -> str:
        """Returns the file name under which bytes are saved in the quarantine.

        `what` names the damaged file, or a part of it. Bytes with another CRC-32C, `checksum`, get
        another name, so they never replace each other.
        """
        topic = self.topic
        if len(topic) > _SAVED_TOPIC_MAX:
            topic = f"{topic[:_SAVED_TOPIC_MAX]}~{blake3(topic.encode()).hex()[:16]}"
        return f"keratin-{topic}-{self.number}-{what}-{checksum:08x}.bin"

    def files(self, disk: Disk) -> list[tuple[int, SegmentFile]]:
        """Lists the files of all segments with their base offsets; ignores other files."""
        matches = (_SEGMENT.fullmatch(name) for name in disk.names(self.segments))
        files = [(int(match[1]), SegmentFile(match[2])) for match in matches if match]
        return [(base, file) for base, file in files if base < 1 << 63]

    def bases(self, disk: Disk) -> list[int]:
        """Returns the sorted base offsets of all segments that have a `.log` file."""
        return sorted(base for base, file in self.files(disk) if file is SegmentFile.LOG)

    def ensure(self, disk: Disk) -> None:
        """Creates the partition's folders, durably."""
        make_folders(disk, self.segments)


def is_topic_name(name: str) -> bool:
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def check_topic_name(name: str) -> None:
    """Raises `BadName` if the name breaks Kafka's rule for topic names."""
    if not is_topic_name(name):
        raise BadName(
            f"topic name {name[:60]!r}: must be 1 to 249 ASCII letters, digits, '.', '_' or '-', "
            "and neither '.' nor '..'"
        )


def check_partition(number: int) -> None:
    if not 0 <= number < PARTITIONS_MAX:
        raise InputError(f"partition {number}: must be 0 to {PARTITIONS_MAX - 1}")


def index_path(log_path: str) -> str:
    """Returns the path of the `.idx` file that belongs to a `.log` file."""
    return log_path.removesuffix(SegmentFile.LOG.value) + SegmentFile.INDEX.value


def time_index_path(log_path: str) -> str:
    """Returns the path of the `.tidx` file that belongs to a `.log` file."""
    return log_path.removesuffix(SegmentFile.LOG.value) + SegmentFile.TIME_INDEX.value
