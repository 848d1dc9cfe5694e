"""Batches that wait to be committed, by where the store finds them, and what became of them."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.layout import Buffer


class StagedFile(NamedTuple):
    """A file that the process which has the store open can read."""

    path: str


class StagedObject(NamedTuple):
    """An object of the store, the newest version of it."""

    bucket: str
    key: str


Staged = Buffer | StagedFile | StagedObject


class CommittedPartition(NamedTuple):
    """What became of one partition's batches.

    `count` messages from `base_offset` on; others may stand among them if it was interrupted. Of a
    version before the application's last neither is known: None and 0.
    """

    partition: int
    is_new: bool  # False: it was committed before
    base_offset: int | None
    count: int  # type: ignore[assignment]
