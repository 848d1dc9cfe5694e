"""Lakes on the real disk, and ways to damage them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from lakebed.base.files import Disk
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.lake import Lake
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.read_only import ReadOnlyLake

CONFIG = SeglakeConfig(reserve_bytes=0, part_bytes_min=1)


@contextmanager
def writing(root: Path) -> Iterator[Lake]:
    with (
        ThreadRunner() as runner,
        Lake(root, disk=real_disk(), runner=runner, config=CONFIG) as lake,
    ):
        yield lake


@contextmanager
def reading(root: Path, *, disk: Disk | None = None) -> Iterator[ReadOnlyLake]:
    with (
        ThreadRunner() as runner,
        ReadOnlyLake(root, disk=disk or real_disk(), runner=runner) as lake,
    ):
        yield lake


def manifest_of(lake: ReadOnlyLake, bucket: str, key: str) -> Manifest:
    with lake.metadata.snapshot() as reader:
        found = reader.current_manifest(bucket, key)
    assert found is not None
    return decode(found[1], path="")


def flip(path: Path, offset: int) -> None:
    """One bit; counted from the end if it is negative."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def segment_file(root: Path, segment_id: str) -> Path:
    return root / "objects" / "segments" / f"{segment_id}.seg"


def manifest_file(root: Path, version_id: str) -> Path:
    return root / "objects" / "manifests" / version_id[:2] / version_id


def change_rows(root: Path, sql: str, *values: str | bytes | int) -> None:
    """As if the metadata had been damaged in a way that SQLite does not see."""
    connection = apsw.Connection(str(root / "meta.db"))
    connection.execute(sql, values)
    connection.close()


def files_of(root: Path, *, but: Callable[[Path], bool] = lambda _path: False) -> dict[str, bytes]:
    """Everything below the root."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not but(path)
    }


def is_shared(path: Path) -> bool:
    """What SQLite's readers and writers share."""
    return path.name in ("meta.db-shm", "meta.db-wal")
