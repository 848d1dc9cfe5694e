"""What fails in a store that is open: what takes no writes, and background work.

A log or a partition whose sync failed refuses everything until it is opened again; a group goes on
with new files as soon as the disk allows it. Background work (sealing, retention, compaction) is
tried again until it succeeds; writes are taken for as long as there is room. What nobody has open
is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from lakebed.aof.log import Aof
from lakebed.keratin.partition import Partition
from lakebed.stroma.group import PartitionGroup

if TYPE_CHECKING:
    from lakebed.seglake.lake import Lake


LOG_UPKEEP: Final = "log upkeep"
PARTITION_UPKEEP: Final = "partition upkeep"
GROUP_UPKEEP: Final = "group upkeep"
OBJECT_UPKEEP: Final = "object upkeep"
"""The kinds that take writes: their background work fails, and is tried again."""


class FailedPart(NamedTuple):
    kind: str  # of thing
    name: str  # which of them
    error: Exception  # names the file, where there is one


def engine_failures(
    *,
    logs: Mapping[str, Aof],
    upkeep: Mapping[str, Mapping[str, Exception]],
    partitions: Iterable[Partition],
    groups: Iterable[PartitionGroup],
    lake: Lake | None,
) -> list[FailedPart]:
    """Of all that is open; `upkeep` by kind and name. Reads no file."""
    found: list[tuple[str, str, Exception | None]] = [
        *(("log", name, log.failure) for name, log in logs.items()),
        *(("partition", part.name, part.failure) for part in partitions),
        *(("group", " ".join(map(str, group.name)), group.failure) for group in groups),
        *(() if lake is None else (("object store", "objects", lake.failure),)),
        *((kind, name, error) for kind, one in upkeep.items() for name, error in one.items()),
    ]
    return [FailedPart(kind, name, error) for kind, name, error in found if error is not None]
