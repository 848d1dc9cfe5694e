"""Stages encoded record batches until they are committed: in a folder, in a bucket, or in the
message that a task sends to the commit.

    writer = staging.writer(run)             # in a task
    writer.append(3, batch)
    batches = writer.finish()                # {3: [StagedFile(…)]}: sent in the task's message

    decided = staging.decide(run, batches)   # in the process that commits
    topic.commit_batches(run.application, run.version, decided)
    staging.remove(run)

After a version is committed, everything else that is staged for its run is garbage: output of tasks
that ran twice, or of earlier attempts. A store commits partition by partition, so a commit that was
interrupted must be completed with the same batches. The batches of a repeated run cannot be used,
because their rows may be distributed differently. So the first commit of a run makes a *decision*:
it durably records its batches before it calls the store, and later commits use the recorded batches
instead of their own. If the store refuses the batches of a decision, the decision is revoked, but
only if no partition has stored any of them.

No committed batch is ever lost. Commits of later runs remove the batches of abandoned runs: after a
day, or after 30 days if there is a decision. Batches that are carried in messages have no decision:
see `Inline`.
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
    """One commit to a topic, identified by an application and its version number."""

    topic: str
    application: str
    version: int

    @property
    def name(self) -> str:
        """The name of the run's folder in the staging area. It is the same in every attempt."""
        digest = hashlib.sha256(f"{self.topic}\0{self.application}".encode()).hexdigest()
        return f"{digest[:32]}-{self.version}"


class StagedWriter(Protocol):
    """Stages the batches that one task writes. Not thread-safe."""

    def append(self, partition: int, batch: bytes) -> None:
        """Stages one record batch for the partition, after those that were appended before."""

    def finish(self) -> Batches:
        """Completes the staging, and returns where the batches are, or the batches themselves.

        Batches in files or objects are durable then.
        """

    def discard(self) -> None:
        """Removes all batches that this writer has staged. Called when the task fails."""


class Staging(Protocol):
    """A place where record batches are kept until they are committed. Not thread-safe."""

    def writer(self, run: Run) -> StagedWriter: ...

    def decide(self, run: Run, batches: Batches) -> Batches:
        """Returns the batches that the run commits, and records them durably first.

        They are the batches of an earlier decision of the same run, or `batches` if the run has no
        decision yet. `Inline` records nothing: it always returns `batches`.
        """

    def forget(self, run: Run) -> None:
        """Revokes the decision about which batches of the run to commit.

        Call it only if the store refused the decided batches and no partition has stored any of
        them.
        """

    def discard(self, run: Run, batches: Batches) -> None:
        """Removes these batches, except those that the run has decided to commit."""

    def remove(self, run: Run) -> None:
        """Removes all staged batches and the decision of a run. Call it after the commit."""

    def remove_leftovers(self) -> int:
        """Removes the staged batches and decisions of abandoned runs. Returns the number of these
        runs.

        A run counts as abandoned after a day without activity, or after 30 days if it has a
        decision.
        """


class Inline:
    """Staging without files: the messages that tasks send to the commit contain the batches.

    There is nothing to remove, and no decision is recorded. So if a commit is interrupted, it is
    completed with the batches of the repeated run, which must put the same rows into the same
    partitions.
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
            "set the option stagingBucket: without it, a commit sends all of its batches in one "
            "request, and their size in bytes",
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
    """The batches that a run decided to commit, and when the decision was last written."""

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
    """Parses a decision. Raises `Corrupt` if the bytes are not the encoding of a decision.

    `path` names the file or object, for the error message.
    """
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
        raise Corrupt(
            "this is not a valid list of the staged batches to commit", path=path
        ) from None


def _location(staged: Staged) -> list[str]:
    assert isinstance(staged, StagedFile | StagedObject), "a decision only names stored batches"
    return list(staged)


def _staged(first: str, second: str | None = None) -> Staged:
    return StagedFile(first) if second is None else StagedObject(first, second)
