"""Parses arguments of `lakebed spark run`: ranges of messages, and locations of files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakebed.base.errors import InputError
from lakebed.base.units import shown

if TYPE_CHECKING:
    from lakebed.spark.jobs.parquet_files import FilesLocation
    from lakebed.spark.jobs.span import Positions, Span

_SCHEME = "s3://"
_US_PER_MS = 1000
_NUMBER_DIGITS_MAX = 18


def span_of(
    *,
    offsets: tuple[Sequence[str] | None, Sequence[str] | None],
    times: tuple[str | None, str | None],
    partitions: Sequence[int] | None,
    is_log: bool = False,
) -> Span:
    """Returns the range of messages that the options select.

    `offsets` and `times` are pairs of a start and an end. With `is_log`, offsets are record ids.
    Raises `InputError` if an option is not valid.
    """
    from lakebed.spark.jobs.span import Span

    if is_log and partitions:
        raise InputError("--partition cannot be used with --log: a log has no partitions")
    return Span(
        start=_positions(offsets[0], "--from-offset", is_log=is_log),
        end=_positions(offsets[1], "--to-offset", is_log=is_log),
        time_start_us=_moment_us(times[0]),
        time_end_us=_moment_us(times[1]),
        partitions=tuple(partitions or ()),
    )


def is_bucket(files: str) -> bool:
    return files.startswith(_SCHEME)


def files_place(files: str, s3: Mapping[str, str]) -> FilesLocation:
    """Returns the location of files: a folder, or for `s3://bucket/prefix` a prefix in a bucket of
    the S3 endpoint in `s3`."""
    from lakebed.spark.jobs.parquet_files import FilesLocation
    from lakebed.spark.options import Options
    from lakebed.spark.tables.location import PLACE_OPTIONS, table_location

    if not is_bucket(files):
        if "://" in files:
            raise InputError(f"{shown(files)}: give a folder, or s3://bucket/prefix")
        return FilesLocation(folder=os.path.abspath(files))
    given = {**s3, "table": files}
    return FilesLocation(
        prefix=table_location(Options("lakebed spark", given, known=PLACE_OPTIONS))
    )


def _positions(texts: Sequence[str] | None, option: str, *, is_log: bool) -> Positions:
    if is_log:
        if texts and len(texts) > 1:
            raise InputError(f"{option} can be given only once if the source is a log")
        return {None: texts[0]} if texts else {}
    positions: dict[int | None, int | str] = {}
    for text in texts or ():
        before, colon, after = text.rpartition(":")
        number = _number(before, option, text) if colon else None
        if number in positions:
            what = "every partition" if number is None else "the partition"
            raise InputError(f"{option} {shown(text)}: an offset for {what} is given twice")
        positions[number] = _number(after, option, text)
    return positions


def _number(digits: str, option: str, text: str) -> int:
    if not digits.isascii() or not digits.isdigit() or len(digits) > _NUMBER_DIGITS_MAX:
        raise InputError(f"{option} {shown(text)}: write it as OFFSET, or PARTITION:OFFSET")
    return int(digits)


def _moment_us(text: str | None) -> int | None:
    from lakebed.cli.values import parse_moment_ms

    return None if text is None else parse_moment_ms(text) * _US_PER_MS
