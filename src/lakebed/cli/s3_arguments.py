"""Parses the arguments of `lakebed s3`, and opens the store for its commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lakebed.cli.invocation import Invocation

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.api.surface import Store

BucketName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the bucket.")]
ObjectPlace = Annotated[
    str, typer.Argument(metavar="BUCKET/KEY", help="The bucket and the key of the object.")
]
VersionOption = Annotated[
    str | None, typer.Option(metavar="ID", help="The id of the version. Default: the newest.")
]

_SCHEME = "s3://"


class Place(NamedTuple):
    """A bucket, and the text after the first slash: a key or a prefix of keys, which may be
    empty."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.bucket}/{self.key}" if self.key else self.bucket


def parse_place(text: str) -> Place:
    """Parses `BUCKET` or `BUCKET/PREFIX`, optionally after `s3://`. Raises `BadName` if the name of
    the bucket is not valid."""
    from lakebed.seglake.names import check_bucket_name

    bucket, _, key = text.removeprefix(_SCHEME).partition("/")
    check_bucket_name(bucket)
    return Place(bucket, key)


def parse_object_place(text: str) -> Place:
    """Parses `BUCKET/KEY`. The key may contain `..`, `//` and control characters.

    Raises `InputError` if there is no key, or if a name is not valid.
    """
    from lakebed.base.errors import InputError
    from lakebed.base.units import shown
    from lakebed.seglake.names import check_key

    place = parse_place(text)
    if not place.key:
        raise InputError(f"{shown(text)}: it has no key: give BUCKET/KEY")
    check_key(place.key)
    return place


@contextmanager
def open_bucket_to_write(run: Invocation, bucket: str) -> Iterator[Store]:
    """Opens the store for writing. If the bucket does not exist, raises `NoSuchBucket` instead, and
    changes nothing."""
    from lakebed.seglake.errors import NoSuchBucket

    try:
        _look_for(run, bucket)
    except NoSuchBucket as error:
        raise NoSuchBucket(f"{error}; create it with lakebed s3 buckets create {bucket}") from None
    with run.place.writing() as store:
        yield store


def _look_for(run: Invocation, bucket: str) -> None:
    """Raises `NoSuchBucket` if the bucket does not exist.

    Does nothing if damage or a disk error hides that, because the writer reports and may repair it.
    """
    from lakebed.base.errors import DataError, DiskError
    from lakebed.cli.store_access import open_to_read

    with open_to_read(run) as store:
        try:
            store.open_bucket(bucket)
        except (DataError, DiskError):
            return
