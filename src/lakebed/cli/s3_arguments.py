"""How the commands of `lakebed s3` open a store, and the places they are given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lakebed.cli.invocation import Invocation

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.api.surface import Store

BucketName = Annotated[str, typer.Argument(metavar="NAME", help="The bucket's name.")]
ObjectPlace = Annotated[str, typer.Argument(metavar="BUCKET/KEY", help="Which object.")]
VersionOption = Annotated[
    str | None, typer.Option(metavar="ID", help="That version, not the newest.")
]

_SCHEME = "s3://"


class Place(NamedTuple):
    """What stands behind the first slash is a key, or a prefix of keys, and may be empty."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.bucket}/{self.key}" if self.key else self.bucket


def parse_place(text: str) -> Place:
    """`BUCKET`, `BUCKET/PREFIX`; `s3://` may stand before it."""
    from lakebed.seglake.names import check_bucket_name

    bucket, _, key = text.removeprefix(_SCHEME).partition("/")
    check_bucket_name(bucket)
    return Place(bucket, key)


def parse_object_place(text: str) -> Place:
    """`BUCKET/KEY`: any key, also one with `..`, `//` or control characters."""
    from lakebed.base.errors import InputError
    from lakebed.base.units import shown
    from lakebed.seglake.names import check_key

    place = parse_place(text)
    if not place.key:
        raise InputError(f"{shown(text)}: expected BUCKET/KEY, the key is missing")
    check_key(place.key)
    return place


@contextmanager
def open_bucket_to_write(run: Invocation, bucket: str) -> Iterator[Store]:
    """The store, if the bucket is there; else nothing is touched."""
    from lakebed.seglake.errors import NoSuchBucket

    try:
        _look_for(run, bucket)
    except NoSuchBucket as error:
        raise NoSuchBucket(f"{error}; lakebed s3 buckets create {bucket} creates it") from None
    with run.place.writing() as store:
        yield store


def _look_for(run: Invocation, bucket: str) -> None:
    """`NoSuchBucket` if it is not there. What else is wrong, opening for writing may mend."""
    from lakebed.base.errors import DataError, DiskError
    from lakebed.cli.store_access import open_to_read

    with open_to_read(run) as store:
        try:
            store.open_bucket(bucket)
        except (DataError, DiskError):
            return
