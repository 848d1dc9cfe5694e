"""Opens the vault of `lakebed backup` and `lakebed restore`: the place where backups are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.report import Column

if TYPE_CHECKING:
    from lakebed.store.backup.catalogue import Snapshot
    from lakebed.store.backup.vault import Vault

Endpoint = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="For s3://: the URL of the S3 service. Default: $AWS_ENDPOINT_URL, or AWS itself.",
    ),
]
Region = Annotated[
    str,
    typer.Option(metavar="NAME", help="For s3://: the region of the bucket. Default: $AWS_REGION."),
]
AllowHttp = Annotated[
    bool,
    typer.Option(
        "--allow-http", help="For s3://: allow an http:// URL (without TLS) of another machine."
    ),
]
SnapshotId = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="ID",
        help="The id of the backup to verify or restore, as lakebed backup --list shows it. "
        "Default: the newest.",
    ),
]


@contextmanager
def opened_vault(address: str, *, endpoint: str, region: str, allow_http: bool) -> Iterator[Vault]:
    """Opens a vault: a folder, or `s3://bucket/prefix` with the credentials in the `AWS_…`
    variables. Creates nothing."""
    from lakebed.aof.tiers.obstore_store import S3Options
    from lakebed.base.errors import InputError
    from lakebed.base.runner import ThreadRunner
    from lakebed.kernels.disk import real_disk
    from lakebed.store.backup.vault import open_vault

    if not address:
        raise InputError(
            "the location of the backups is empty: give a folder, or s3://bucket/prefix"
        )
    if "://" not in address:
        address = os.path.abspath(address)
    options = S3Options(endpoint=endpoint, region=region, allow_http=allow_http)
    runner = ThreadRunner()
    try:
        yield open_vault(address, disk=real_disk(), runner=runner, options=options)
    finally:
        runner.close()


def chosen(vault: Vault, snapshot_id: str | None) -> Snapshot:
    """Returns the backup with that id, by default the newest. Raises `NotFound` if there is
    none."""
    from lakebed.base.errors import NotFound

    if snapshot_id is None:
        ids = vault.snapshot_ids()
        if not ids:
            raise NotFound(f"{vault.address}: contains no finished backup")
        snapshot_id = ids[-1]
    else:
        vault.marker()
    return vault.snapshot(snapshot_id)


SNAPSHOT = (
    Column("snapshot", "snapshot_id"),
    Column("created_ms"),
    Column("finished_ms"),
    Column("program"),
    Column("files", lambda snapshot: len(snapshot.files)),
    Column("bytes", "size"),
    Column("external"),
    Column("left_out"),
    Column("problems"),
)
