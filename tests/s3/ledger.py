"""What a server said it has done, written down outside of it, and what it may have done.

A writer notes a change before it sends it: from then on the old and the new are both possible.
When the answer comes, the change is acknowledged, and only the new one is. Each object has one
writer, so the order of its changes is known.

Invariant: a version that was acknowledged is never taken out of the ledger but by a deletion of it
that was acknowledged too.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Content(NamedTuple):
    """Of one version of an object: a body, what it must be told as, and the turn it is of."""

    sha256: str
    etags: frozenset[str]  # a copy of an object of parts may have either
    turn: str

    @classmethod
    def of(cls, data: bytes, turn: str) -> Content:
        return cls(hashlib.sha256(data).hexdigest(), frozenset({md5(data)}), turn)

    @classmethod
    def of_parts(cls, parts: Iterable[bytes], turn: str) -> Content:
        kept = list(parts)
        digests = b"".join(bytes.fromhex(md5(part)) for part in kept)
        etag = f"{md5(digests)}-{len(kept)}"
        return cls(hashlib.sha256(b"".join(kept)).hexdigest(), frozenset({etag}), turn)


State = Content | None  # of an object: its content, or that there is none


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclass
class Upload:
    """One that was begun and not yet ended; its parts by number."""

    upload_id: str
    turn: str
    parts: dict[int, bytes] = field(default_factory=dict)
    maybe_part: tuple[int, bytes] | None = None
    may_be_complete: bool = False


@dataclass
class Story:
    """Of one key: what it may be now, and its versions from the oldest to the newest."""

    bucket: str
    key: str
    is_versioned: bool
    possible: list[State] = field(default_factory=lambda: [None])
    versions: dict[str, State] = field(default_factory=dict)  # None: a delete marker
    unanswered: list[State] = field(default_factory=list)  # versions that may be there
    may_be_gone: str | None = None  # a version whose deletion was not answered
    upload: Upload | None = None

    @property
    def current(self) -> State:
        assert len(self.possible) == 1, f"{self.key}: not known"
        return self.possible[0]

    def intend(self, state: State) -> None:
        self.possible.append(state)
        self.unanswered.append(state)

    def acknowledge(self, version_id: str | None) -> None:
        """What was intended last has happened."""
        self.possible = [self.possible[-1]]
        state = self.unanswered.pop()
        if self.is_versioned:
            assert version_id is not None, f"{self.key}: a version without an id"
            assert version_id not in self.versions, f"{self.key}: {version_id} was given twice"
            self.versions[version_id] = state

    def intend_removal(self, version_id: str) -> None:
        """Of a version, for good."""
        self.may_be_gone = version_id
        left = [state for one, state in self.versions.items() if one != version_id]
        self.possible.append(left[-1] if left else None)

    def acknowledge_removal(self) -> None:
        assert self.may_be_gone is not None
        del self.versions[self.may_be_gone]
        self.may_be_gone = None
        self.possible = [self.possible[-1]]


class Ledger:
    """Of all writers; it counts what was acknowledged, and whoever kills waits for a count."""

    def __init__(self) -> None:
        self.stories: list[Story] = []
        self.acknowledged = 0  # under the condition, as is the next
        self.failures: list[BaseException] = []
        self._changed = threading.Condition()

    def open(self, bucket: str, key: str, *, is_versioned: bool) -> Story:
        story = Story(bucket, key, is_versioned)
        self.stories.append(story)
        return story

    def count(self) -> None:
        with self._changed:
            self.acknowledged += 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Until so many changes are acknowledged, or a writer failed."""
        with self._changed:
            self._changed.wait_for(lambda: self.acknowledged >= count or bool(self.failures))
