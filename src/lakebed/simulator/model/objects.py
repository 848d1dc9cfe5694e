"""The expected contents of a bucket: the versions of each key, newest first.

The state of a key is known, or, after a crash or a lost response, one of several possible states;
the next read or listing decides which. Every possible state contains all acknowledged changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.simulator.violation import Promise, Violation


class ModelVersion(NamedTuple):
    """A version of an object; a delete marker has no content."""

    version_id: str | None  # None: unknown, because no response stated it
    content: bytes | None
    is_null: bool = False

    def fits(self, seen: ModelVersion) -> bool:
        """Returns whether the entry `seen` of a listing can be this version. A listing shows the
        sizes of versions, not their contents.
        """
        is_same = self.version_id in (None, seen.version_id) or (self.is_null and seen.is_null)
        if self.content is None or seen.content is None:
            return is_same and self.content is seen.content
        return is_same and len(self.content) == len(seen.content)


KeyState = tuple[ModelVersion, ...]
EMPTY: KeyState = ()


class Versions(NamedTuple):
    """The versioning state of a bucket. If both fields are false, versioning is disabled."""

    is_enabled: bool
    is_suspended: bool = False


@dataclass
class KeyModel:
    """The possible states of one key."""

    states: list[KeyState] = field(default_factory=lambda: [EMPTY])

    @property
    def is_known(self) -> bool:
        return len(self.states) == 1

    def changed(self, change: Callable[[KeyState], KeyState | None]) -> None:
        """Applies an acknowledged change to every possible state, and drops states to which it
        cannot apply. If it cannot apply to any state, keeps all states unchanged.
        """
        self.states = (
            _unique(after for after in map(change, self.states) if after is not None) or self.states
        )

    def maybe_changed(self, change: Callable[[KeyState], KeyState | None]) -> None:
        """Records that a change may have happened: adds the states that it would lead to."""
        after = [state for state in map(change, self.states) if state is not None]
        self.states = _unique([*self.states, *after])

    def seen(self, versions: Sequence[ModelVersion], where: str) -> None:
        """Checks the key's versions in a listing, newest first.

        Raises `Violation` if they match none of the possible states. Otherwise drops all possible
        states but the first that they match.
        """
        fitting = [state for state in self.states if _fits(state, versions)]
        if not fitting:
            expected = " or ".join(map(shown, self.states))
            what = f"{where}: the versions are {shown(versions)}, expected {expected}"
            raise Violation(_broken(self.states, versions), what)
        self.states = [_joined(fitting[0], versions)]

    def identify(self, version_id: str, content: bytes) -> None:
        """Sets the id of the versions with this content whose id is unknown."""
        self.states = _unique(
            tuple(
                version._replace(version_id=version_id)
                if version.version_id is None and version.content == content
                else version
                for version in state
            )
            for state in self.states
        )

    def resolve(self, version_id: str, content: bytes) -> None:
        """Drops the possible states in which that version has other content than was read. Keeps
        all if no state would be left.
        """
        self.states = [
            state
            for state in self.states
            if all(v.content == content for v in state if v.version_id == version_id)
        ] or self.states

    def current(self) -> set[bytes | None]:
        """Returns the contents that a read may return. None in the set means that the key may not
        exist.
        """
        return {state[0].content if state else None for state in self.states}

    def saw_current(self, content: bytes | None, where: str) -> None:
        possible = self.current()
        if content not in possible:
            expected = " or ".join(sorted(map(_short, possible)))
            what = f"{where}: the object is {_short(content)}, expected {expected}"
            raise Violation(Promise.KEPT, what)
        self.states = [
            state for state in self.states if (state[0].content if state else None) == content
        ]


@dataclass
class BucketModel:
    name: str
    versions: Versions
    keys: dict[str, KeyModel] = field(default_factory=dict)
    damaged_keys: set[str] = field(default_factory=set)
    maybe_gone: bool = False  # its deletion is in doubt
    maybe_versions: list[Versions] = field(
        default_factory=list
    )  # possible states if a change of versioning is in doubt

    def key(self, key: str) -> KeyModel:
        return self.keys.setdefault(key, KeyModel())

    @property
    def possible_versions(self) -> list[Versions]:
        return self.maybe_versions or [self.versions]

    @property
    def may_be_empty(self) -> bool:
        """Whether it is possible that the bucket can be deleted, because it has no versions except
        delete markers.
        """
        return all(any(map(_is_bare, key.states)) for key in self.keys.values())

    @property
    def is_empty(self) -> bool:
        return all(all(map(_is_bare, key.states)) for key in self.keys.values())


def _is_bare(state: KeyState) -> bool:
    return all(version.content is None for version in state)


def after_put(state: KeyState, version: ModelVersion, versions: Versions) -> KeyState:
    if versions.is_enabled:
        return (version, *state)
    return (version._replace(is_null=True), *(each for each in state if not each.is_null))


def after_delete(state: KeyState, version_id: str | None, versions: Versions) -> KeyState:
    """Returns the state of a key after a delete that names no version.

    If versioning is enabled or suspended, the delete adds a delete marker with the id `version_id`;
    if it is suspended, the marker replaces the null version. Without versioning, the delete removes
    the object.
    """
    if versions.is_enabled:
        return (ModelVersion(version_id, None), *state)
    kept = tuple(each for each in state if not each.is_null)
    if versions.is_suspended:
        return (ModelVersion(version_id, None, is_null=True), *kept)
    return kept


def after_removal(state: KeyState, version_id: str) -> KeyState:
    """Returns the state of a key after the version `version_id` was permanently deleted."""
    return tuple(
        each
        for each in state
        if each.version_id != version_id and not (version_id == "null" and each.is_null)
    )


def shown(state: Sequence[ModelVersion]) -> str:
    return "[" + ", ".join(_short(version.content) for version in state) + "]"


def _short(content: bytes | None) -> str:
    if content is None:
        return "nothing"
    return f"{content[:24].decode('ascii', 'replace')!r} ({len(content)} bytes)"


def _fits(state: KeyState, seen: Sequence[ModelVersion]) -> bool:
    return len(state) == len(seen) and all(map(ModelVersion.fits, state, seen))


def _joined(state: KeyState, seen: Sequence[ModelVersion]) -> KeyState:
    """Returns the state with the version ids of the listing."""
    return tuple(
        known._replace(version_id=found.version_id)
        for known, found in zip(state, seen, strict=True)
    )


def _unique(states: Iterable[KeyState]) -> list[KeyState]:
    return list(dict.fromkeys(states))


def _broken(states: Sequence[KeyState], seen: Sequence[ModelVersion]) -> Promise:
    if len(seen) > max(map(len, states)):
        return Promise.DELETED
    return Promise.KEPT
