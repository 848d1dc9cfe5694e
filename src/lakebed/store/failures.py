"""Lists what is failing in an open store: parts that refuse writes, and background work.

A log or a partition that cannot continue after a failed write or sync refuses writes until it is
opened again; a group refuses them only until it has written new files, which it tries by itself.
Background work (sealing, retention, compaction) is retried until it succeeds; until then writes are
accepted as long as there is room. Logs, topics and groups that are not open are not checked.
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
"""Kinds of `FailedPart` that stand for failing background work, which is retried.

A `FailedPart` of any other kind refuses writes; a group does so only until it can write new files.
"""


class FailedPart(NamedTuple):
    kind: str  # log, partition, group, object store, or one of the kinds of upkeep above
    name: str
    error: Exception


def engine_failures(
    *,
    logs: Mapping[str, Aof],
    upkeep: Mapping[str, Mapping[str, Exception]],
    partitions: Iterable[Partition],
    groups: Iterable[PartitionGroup],
    lake: Lake | None,
) -> list[FailedPart]:
    """Returns the failures of everything that is open.

    `upkeep` has the failures of background work, by kind and name.
    """
    failures: list[tuple[str, str, Exception | None]] = [
        *(("log", name, log.failure) for name, log in logs.items()),
        *(("partition", partition.name, partition.failure) for partition in partitions),
        *(("group", " ".join(map(str, group.name)), group.failure) for group in groups),
        *(() if lake is None else (("object store", "objects", lake.failure),)),
        *(
            (kind, name, error)
            for kind, by_name in upkeep.items()
            for name, error in by_name.items()
        ),
    ]
    return [FailedPart(kind, name, error) for kind, name, error in failures if error is not None]
