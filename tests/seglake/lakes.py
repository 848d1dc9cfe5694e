"""Lakes on the real disk, if no other is passed in, and short words for what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from lakebed.base.clock import Clock
from lakebed.base.files import Disk
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.lake import Lake
from lakebed.seglake.meta.connection import Connector, connect
from lakebed.seglake.model import NULL_VERSION, Condition, Versioning

BUCKET = "photos"
IF_ABSENT = Condition(if_none_match="*")
IF_PRESENT = Condition(if_match="*")


def open_lake(
    root: Path,
    *,
    clock: Clock | None = None,
    disk: Disk | None = None,
    connector: Connector = connect,
    **settings: Any,
) -> Lake:
    """With these settings; a full disk is not what such tests are about."""
    config = SeglakeConfig(reserve_bytes=0, **settings)
    runner = ThreadRunner(clock=clock)
    return Lake(root, disk=disk or real_disk(), runner=runner, config=config, connector=connector)


def add_bucket(lake: Lake, versioning: Versioning, name: str = BUCKET) -> None:
    """A bucket in that state; one is suspended only after it was enabled."""
    if versioning is Versioning.SUSPENDED:
        lake.buckets.create(name, versioning=Versioning.ENABLED)
        lake.buckets.set_versioning(name, versioning)
    else:
        lake.buckets.create(name, versioning=versioning)


def body(size: int, seed: int = 0) -> bytes:
    """So many bytes, the same each time."""
    return Random(seed).randbytes(size)


def in_pieces(data: bytes, *sizes: int) -> Iterator[memoryview]:
    """The bytes in pieces of these sizes, over and over."""
    view = memoryview(data)
    lengths = cycle(sizes)
    while view:
        length = next(lengths)
        yield view[:length]
        view = view[length:]


def stored(lake: Lake, key: str, *, version_id: str | None = None, bucket: str = BUCKET) -> bytes:
    """What a get gives."""
    return lake.objects.get(bucket, key, version_id=version_id).read()


def keys(lake: Lake, bucket: str = BUCKET) -> list[str]:
    """Of all objects, in the order they are listed."""
    return [row.key for row in lake.objects.list(bucket).items]


def told_versions(lake: Lake, bucket: str = BUCKET) -> list[tuple[str, str, bool]]:
    """Key, version id as it is told, and whether it is the latest: of all that are listed."""
    return [
        (row.key, NULL_VERSION if row.is_null else row.version_id, is_latest)
        for row, is_latest in lake.objects.list_versions(bucket).items
    ]


def segment_bytes(root: Path) -> int:
    """How much all segments hold, as long as nothing is sealed."""
    return sum(path.stat().st_size for path in (root / "objects" / "segments").iterdir())
