"""The handler of batch commits.

A staged batch is part of the request, or the store reads it from a file or an object. It reads
files only for callers on the local socket: otherwise anyone with an access key could read the files
of this machine over the network.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from lakebed.api import topics
from lakebed.api.operation import Operation
from lakebed.api.problems import Refused
from lakebed.api.topics import BatchCommit, Committed, StagedBatch
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.lookup import topic_of
from lakebed.http_api.service import Service
from lakebed.store.staged_batch import Staged, StagedFile, StagedObject


async def commit_batches(service: Service, call: Call) -> Committed:
    document = await call.document(BatchCommit)
    batches = staged_by_partition(document, is_local=not call.request.peer)
    topic = await topic_of(service, call)
    committed = await service.run(
        lambda: topic.commit_batches(document.application, document.version, batches)
    )
    return Committed(committed)


def staged_by_partition(document: BatchCommit, *, is_local: bool) -> dict[int, list[Staged]]:
    """Returns the staged batches of a request, by partition.

    Raises `Refused` if a partition is listed twice, or if a batch has no source, several sources,
    or a source that is not allowed.
    """
    batches: dict[int, list[Staged]] = {}
    for part in document.partitions:
        if part.partition in batches:
            raise Refused(f"partition {part.partition} is listed twice")
        batches[part.partition] = [
            _staged(batch, is_local=is_local, label=f"partition {part.partition}, batch {index}")
            for index, batch in enumerate(part.batches)
        ]
    return batches


def _staged(batch: StagedBatch, *, is_local: bool, label: str) -> Staged:
    match batch:
        case StagedBatch(data=bytes() as data, path=None, bucket=None, key=None):
            return data
        case StagedBatch(data=None, path=str() as path, bucket=None, key=None):
            if not is_local:
                raise Refused(
                    f"{label}: a path is accepted only over the local socket; send the bytes, or "
                    "stage them as an object"
                )
            if not os.path.isabs(path) or "\0" in path:
                raise Refused(
                    f"{label}: the path {path[:80]!r} must be absolute, without a NUL byte"
                )
            return StagedFile(path)
        case StagedBatch(data=None, path=None, bucket=str() as bucket, key=str() as key):
            return StagedObject(bucket, key)
    raise Refused(f"{label}: set either `data`, or `path`, or both `bucket` and `key`")


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {topics.COMMIT_BATCHES: commit_batches}
