"""Staging of encoded batches until they are committed: in a folder, in a bucket, or in the task's
message.

    writer = staging.writer(run)             # in a task
    writer.append(3, batch)
    batches = writer.finish()                # {3: [StagedFile(…)]}: sent in the task's message

    decided = staging.decide(run, batches)   # in the process that commits
    topic.commit_batches(run.application, run.version, decided)
    staging.remove(run)

After a version is committed, everything else that is staged for its run is garbage: output of tasks
that ran twice, or of earlier attempts. A store commits partition by partition, so a commit that was
interrupted must be completed with the same batches. The batches of a repeated run will not do,
because their rows may be distributed differently. So the first commit of a run makes a *decision*:
it durably records its batches before it calls the store, and later commits use the recorded batches
instead of their own. If the store refuses a decision, it is revoked only if no partition has stored
any of it.

What may be lost: nothing that was committed. The batches of abandoned runs are removed after a day,
or after 30 days if there is a decision. Batches that are carried in messages have no decision: see
`Inline`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from lakebed.base.errors import Corrupt, TooLarge
from lakebed.base.units import MIB
from lakebed.store.staged_batch import Staged, StagedFile, StagedObject

KEPT_MS = 24 * 3600 * 1000
KEPT_DECIDED_MS = 30 * KEPT_MS
INLINE_BYTES_MAX = 16 * MIB  # per commit, which is one request
DECISION_BYTES_MAX = 64 * MIB

_FORMAT = "lakebed staged commit"
_VERSION = 1

Batches = dict[int, list[Staged]]


class Run(NamedTuple):
    """One commit: a version of an application, for a topic."""

    topic: str
    application: str
    version: int

    @property
    def name(self) -> str:
        """A file name for the run, the same in every attempt."""
        digest = hashlib.sha256(f"{self.topic}\0{self.application}".encode()).hexdigest()
        return f"{digest[:32]}-{self.version}"


class StagedWriter(Protocol):
    """Stages the batches of one task. Not thread-safe."""

    def append(self, partition: int, batch: bytes) -> None:
        """Appends one record batch to those of the partition."""

    def finish(self) -> Batches:
        """Returns what was staged. It is durable then."""

    def discard(self) -> None:
        """Removes everything that was staged. For a task that failed."""


class Staging(Protocol):
    """A place where batches are staged. Not thread-safe."""

    def writer(self, run: Run) -> StagedWriter: ...

    def decide(self, run: Run, batches: Batches) -> Batches:
        """Returns the batches to commit: these, or those that an earlier attempt decided on.

        The decision is durable when this returns, whichever attempt made it.
        """

    def forget(self, run: Run) -> None:
        """Revokes the decision.

        Call it only if the store refused it and no partition has stored any of it.
        """

    def discard(self, run: Run, batches: Batches) -> None:
        """Removes these batches, except those in a decision."""

    def remove(self, run: Run) -> None:
        """Removes everything of a run that was committed."""

    def remove_leftovers(self) -> int:
        """Removes runs that were abandoned long ago. Returns how many."""


class Inline:
    """Batches that the tasks' messages carry.

    There is nothing to remove, and no decision is recorded.

    So a commit that was interrupted is completed with the batches of the repeated run, which must
    have the same rows in the same partitions.
    """

    def writer(self, run: Run) -> StagedWriter:  # noqa: ARG002
        return _InlineWriter()

    def decide(self, run: Run, batches: Batches) -> Batches:  # noqa: ARG002
        check_inline(sum(memoryview(batch).nbytes for batch in _buffers(batches)))
        return batches

    def forget(self, run: Run) -> None: ...

    def discard(self, run: Run, batches: Batches) -> None: ...

    def remove(self, run: Run) -> None: ...

    def remove_leftovers(self) -> int:
        return 0


class _InlineWriter:
    def __init__(self) -> None:
        self._batches: Batches = {}
        self._bytes = 0

    def append(self, partition: int, batch: bytes) -> None:
        self._bytes += len(batch)
        check_inline(self._bytes)
        self._batches.setdefault(partition, []).append(batch)

    def finish(self) -> Batches:
        return self._batches

    def discard(self) -> None:
        self._batches = {}


def check_inline(size: int) -> None:
    if size > INLINE_BYTES_MAX:
        raise TooLarge(
            "the size in bytes of the batches sent with one commit (set the option stagingBucket)",
            size=size,
            limit=INLINE_BYTES_MAX,
        )


def _buffers(batches: Batches) -> list[bytes]:
    return [
        batch
        for of_partition in batches.values()
        for batch in of_partition
        if isinstance(batch, bytes)
    ]


# The encoding of decisions.


class Decision(NamedTuple):
    """The batches that were chosen, and when the decision was last written."""

    decided_ms: int
    batches: Batches

    @property
    def staged(self) -> set[Staged]:
        return {batch for of_partition in self.batches.values() for batch in of_partition}


def encode_decision(decision: Decision) -> bytes:
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "decided_ms": decision.decided_ms,
        "batches": {
            str(partition): [_location(batch) for batch in of_partition]
            for partition, of_partition in decision.batches.items()
        },
    }
    return json.dumps(document).encode()


def decode_decision(data: bytes, *, path: str) -> Decision:
    """Raises `Corrupt` if the bytes are not a decision."""
    try:
        document = json.loads(data)
        if document["format"] != _FORMAT or document["version"] != _VERSION:
            raise ValueError
        batches: Mapping[str, list[list[str]]] = document["batches"]
        return Decision(
            int(document["decided_ms"]),
            {
                int(key): [_staged(*location) for location in of_partition]
                for key, of_partition in batches.items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Corrupt("not a decision about a staged commit", path=path) from None


def _location(staged: Staged) -> list[str]:
    assert isinstance(staged, StagedFile | StagedObject), "a decision only names stored batches"
    return list(staged)


def _staged(first: str, second: str | None = None) -> Staged:
    return StagedFile(first) if second is None else StagedObject(first, second)
