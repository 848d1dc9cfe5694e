"""What of a store that is open takes no writes, since something failed.

A log or a partition whose sync failed refuses everything until it is opened again; a group goes on
with new files as soon as the disk allows it. What nobody has open is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lakebed.aof.log import Aof
from lakebed.base.errors import LakebedError
from lakebed.keratin.partition import Partition
from lakebed.stroma.group import PartitionGroup

if TYPE_CHECKING:
    from lakebed.seglake.lake import Lake


class Failed(NamedTuple):
    kind: str  # of thing
    name: str  # which of them
    error: LakebedError


def engine_failures(
    *,
    logs: Mapping[str, Aof],
    partitions: Iterable[Partition],
    groups: Iterable[PartitionGroup],
    lake: Lake | None,
) -> list[Failed]:
    """Of all that is open. Reads no file."""
    found = [
        *(("log", name, log.failure) for name, log in logs.items()),
        *(("partition", part.name, part.failure) for part in partitions),
        *(("group", " ".join(map(str, group.name)), group.failure) for group in groups),
        *(() if lake is None else (("object store", "objects", lake.failure),)),
    ]
    return [Failed(kind, name, error) for kind, name, error in found if error is not None]
