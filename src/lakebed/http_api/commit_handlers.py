"""The handler of batch commits.

What is staged comes along, or the store fetches it: from a file only for who calls over the local
socket, for over the network it would let anybody with a key read the files of this machine.
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
    asked = await call.document(BatchCommit)
    batches = staged_by_partition(asked, is_local=not call.request.peer)
    topic = await topic_of(service, call)
    committed = await service.run(
        lambda: topic.commit_batches(asked.application, asked.version, batches)
    )
    return Committed(committed)


def staged_by_partition(asked: BatchCommit, *, is_local: bool) -> dict[int, list[Staged]]:
    """`Refused` if it is not said where a batch is, or said twice, or it may not be there."""
    batches: dict[int, list[Staged]] = {}
    for part in asked.partitions:
        if part.partition in batches:
            raise Refused(f"partition {part.partition} is there twice")
        batches[part.partition] = [
            _staged(one, is_local=is_local, where=f"partition {part.partition}, batch {index}")
            for index, one in enumerate(part.batches)
        ]
    return batches


def _staged(batch: StagedBatch, *, is_local: bool, where: str) -> Staged:
    match batch:
        case StagedBatch(data=bytes() as data, path=None, bucket=None, key=None):
            return data
        case StagedBatch(data=None, path=str() as path, bucket=None, key=None):
            if not is_local:
                raise Refused(
                    f"{where}: a path is taken over the local socket alone; send the bytes, or "
                    "stage them as an object"
                )
            if not os.path.isabs(path) or "\0" in path:
                raise Refused(f"{where}: path {path[:80]!r}: an absolute one is wanted")
            return StagedFile(path)
        case StagedBatch(data=None, path=None, bucket=str() as bucket, key=str() as key):
            return StagedObject(bucket, key)
    raise Refused(f"{where}: either data, or a path, or a bucket and a key is wanted")


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {topics.COMMIT_BATCHES: commit_batches}
