"""Where encoded batches wait until they are committed: a folder, a bucket, or the message itself.

    writer = staging.writer(run)             # in a task
    writer.append(3, batch)
    batches = writer.finish()                # {3: [StagedFile(…)]}: what the message carries

    decided = staging.decide(run, batches)   # where the commit is
    topic.commit_batches(run.application, run.version, decided)
    staging.remove(run)

Whatever stands in a run's place when its version is committed is of no use to anybody: a task that
ran twice, or an earlier attempt. A store commits partition by partition, so a commit that ends
half-way must be completed with the same batches, not with those of a repetition, whose rows may be
spread in another way. That is why the first commit of a run *decides*: what it found is written
down, durably, before the store is asked, and a later one takes that instead of its own. A decision
that cannot be carried out is taken back only as long as no partition has anything of it.

What may be lost: nothing that was committed. Batches of runs that nobody came back to are removed
after a day, and after 30 if they were decided. What is carried by the messages alone is not
decided: see `inline`.
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
INLINE_BYTES_MAX = 16 * MIB  # of one commit: it is one request
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
        """A file name for it, the same at every attempt."""
        digest = hashlib.sha256(f"{self.topic}\0{self.application}".encode()).hexdigest()
        return f"{digest[:32]}-{self.version}"


class StagedWriter(Protocol):
    """What one task stages. Not thread-safe."""

    def append(self, partition: int, batch: bytes) -> None:
        """One record batch, behind those that the partition has."""

    def finish(self) -> Batches:
        """Durable when it returns."""

    def discard(self) -> None:
        """Remove all of it; for a task that failed."""


class Staging(Protocol):
    """A place to stage in. Not thread-safe."""

    def writer(self, run: Run) -> StagedWriter: ...

    def decide(self, run: Run, batches: Batches) -> Batches:
        """What is to be committed: these, or what an earlier attempt decided.

        Durable, whoever decided it: it is written before it is returned.
        """

    def forget(self, run: Run) -> None:
        """Take the decision back: the store refused it, and no partition has anything of it."""

    def discard(self, run: Run, batches: Batches) -> None:
        """Remove these, but for those that are decided."""

    def remove(self, run: Run) -> None:
        """Everything of a run, which was committed."""

    def remove_leftovers(self) -> int:
        """Of runs that ended long ago; how many they were."""


class Inline:
    """Batches that the tasks' messages carry. Nothing is to be removed, nor can it be decided.

    So a commit that ended half-way is completed with the batches of its repetition, which must have
    the same rows in the same partitions.
    """

    def writer(self, run: Run) -> StagedWriter:  # noqa: ARG002
        return _InlineWriter()

    def decide(self, run: Run, batches: Batches) -> Batches:  # noqa: ARG002
        check_inline(sum(memoryview(one).nbytes for one in _buffers(batches)))
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
            "the size of what is sent with one commit (give the option stagingBucket), in bytes,",
            size=size,
            limit=INLINE_BYTES_MAX,
        )


def _buffers(batches: Batches) -> list[bytes]:
    return [one for theirs in batches.values() for one in theirs if isinstance(one, bytes)]


# Decisions, as they are written down.


class Decision(NamedTuple):
    """Which batches, and when that was decided, or found to be, the last time."""

    decided_ms: int
    batches: Batches

    @property
    def staged(self) -> set[Staged]:
        return {one for theirs in self.batches.values() for one in theirs}


def encode_decision(decision: Decision) -> bytes:
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "decided_ms": decision.decided_ms,
        "batches": {
            str(partition): [_place(one) for one in theirs]
            for partition, theirs in decision.batches.items()
        },
    }
    return json.dumps(document).encode()


def decode_decision(data: bytes, *, path: str) -> Decision:
    """`Corrupt` if it is none."""
    try:
        document = json.loads(data)
        if document["format"] != _FORMAT or document["version"] != _VERSION:
            raise ValueError
        batches: Mapping[str, list[list[str]]] = document["batches"]
        return Decision(
            int(document["decided_ms"]),
            {int(key): [_staged(*place) for place in theirs] for key, theirs in batches.items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Corrupt("not a decision about a staged commit", path=path) from None


def _place(staged: Staged) -> list[str]:
    assert isinstance(staged, StagedFile | StagedObject), "only what is stored can be decided"
    return list(staged)


def _staged(first: str, second: str | None = None) -> Staged:
    return StagedFile(first) if second is None else StagedObject(first, second)
