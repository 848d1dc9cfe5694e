"""Databases and rows for the tests of the metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lakebed.base.errors import LakebedError
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.rows import UploadRow, VersionRow
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import BucketInfo, State, Versioning

Result = TypeVar("Result")

BUCKET = "photos"
SITE = "0123456789abcdef"


def open_database(folder: Path, *, readers_max: int = 4, read_only: bool = False) -> Database:
    return Database(
        folder / "meta.db",
        disk=real_disk(),
        runner=ThreadRunner(),
        readers_max=readers_max,
        read_only=read_only,
    )


def write(database: Database, operation: Callable[[Writer], Result]) -> Result:
    """One operation that must succeed."""
    [result] = database.write([operation])
    if isinstance(result, LakebedError):
        raise result
    return result


def bucket(name: str = BUCKET, versioning: Versioning = Versioning.ENABLED) -> BucketInfo:
    return BucketInfo(name=name, created_ms=5, versioning=versioning)


def version(
    key: str,
    number: int,
    *,
    state: State = State.ACTIVE,
    is_null: bool = False,
    name: str = BUCKET,
) -> VersionRow:
    """The larger the number, the newer."""
    return VersionRow(
        version_id=f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}{number:016x}",
        bucket=name,
        key=key,
        state=state,
        is_null=is_null,
        etag=f"{number:032x}",
        size=number,
        content_type="text/plain" if number % 2 else None,
        modified_ms=number,
        hlc=hlc(number),
        site_id=SITE,
    )


def marker(key: str, number: int) -> VersionRow:
    return version(key, number, state=State.DELETED)


def hlc(number: int) -> str:
    return f"{number:019d}-{0:010d}"


def put(row: VersionRow) -> Callable[[Writer], None]:
    """Add a version on top of its key."""

    def apply(writer: Writer) -> None:
        writer.add_version(row, manifest_of(row))
        writer.set_current(row)

    return apply


def manifest_of(row: VersionRow) -> bytes:
    return f"manifest of {row.version_id}".encode()


def upload(key: str, upload_id: str) -> UploadRow:
    return UploadRow(upload_id, BUCKET, key, 7, "text/plain", "{}")
