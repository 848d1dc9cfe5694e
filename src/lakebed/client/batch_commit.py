"""Commits staged batches in a remote store exactly once, even if the request is repeated."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from lakebed.api import topics as wire
from lakebed.base.errors import InputError
from lakebed.client.caller import Caller
from lakebed.client.message_appender import as_bytes
from lakebed.store.staged_batch import CommittedPartition, Staged, StagedFile, StagedObject


def commit_batches(
    caller: Caller,
    topic: str,
    application: str,
    version: int,
    batches: Mapping[int, Sequence[Staged]],
) -> list[CommittedPartition]:
    """Appends the batches durably. Returns one result per partition. Repeating the call has no
    effect."""
    partitions = [
        wire.StagedPartition(partition=number, batches=[_wire(batch) for batch in staged])
        for number, staged in sorted(batches.items())
    ]
    body = wire.BatchCommit(application=application, version=version, partitions=partitions)
    return caller.call(wire.COMMIT_BATCHES, {"topic": topic}, body=body).partitions


def _wire(staged: Staged) -> wire.StagedBatch:
    if isinstance(staged, StagedFile):
        # The server may have another working directory.
        return wire.StagedBatch(path=os.path.abspath(staged.path))
    if isinstance(staged, StagedObject):
        return wire.StagedBatch(bucket=staged.bucket, key=staged.key)
    try:
        return wire.StagedBatch(data=as_bytes(staged))
    except (TypeError, BufferError):
        raise InputError(
            "a staged batch must be bytes, a StagedFile or a StagedObject, not "
            f"{type(staged).__name__}"
        ) from None
