"""A cache of the keys that may sign requests: the store's access keys, and the first credentials.

The *first credentials* are given in the environment of the server and are not stored. If there are
none and the store has no keys, the server creates an access key with the policy `root` instead.

A key that was looked up stays cached until any key of the store changes, or until too many others
are cached. Unknown and disabled keys are not cached, because clients could send any number of them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from lakebed.seglake.access_keys import ROOT_POLICY, AccessKeys

_USE_NOTED_S = 3600  # the resolution of the last use of a key


class Credentials(NamedTuple):
    access_key: str
    secret: str

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, …)"


class KnownKey(NamedTuple):
    secret: str
    is_first: bool
    inflight_max: int | None

    def __repr__(self) -> str:
        return "KnownKey(…)"


class KeyRing:
    """A cache of the keys that may sign requests. Not thread-safe, except for `look_up`."""

    def __init__(
        self,
        first: Credentials | None = None,
        keys: AccessKeys | None = None,
        *,
        count_max: int = 1024,
    ) -> None:
        """`first` are the credentials from the server's environment, if any.

        They take precedence over an access key of the store with the same name. At most `count_max`
        other keys are cached; if there are more, the one that was cached first is dropped.
        """
        self._keys = keys
        self._count_max = count_max
        self._first = (
            {} if first is None else {first.access_key: KnownKey(first.secret, True, None)}
        )
        self._known: OrderedDict[str, KnownKey] = OrderedDict()
        self._noted_s: dict[str, int] = {}
        self._generation = -1

    @property
    def generation(self) -> int:
        """A number that grows whenever a key is created, enabled or disabled."""
        return -1 if self._keys is None else self._keys.generation

    def find(self, access_key: str) -> KnownKey | None:
        """Returns the key from the cache or the store; None if it is unknown or disabled."""
        key = self.remembered(access_key)
        if key is not None or self._keys is None:
            return key
        generation = self.generation
        key = self.look_up(access_key)
        if key is not None:
            self.remember(access_key, key, generation=generation)
        return key

    def remembered(self, access_key: str) -> KnownKey | None:
        """Returns the key if it is cached or is the key of the first credentials.

        Otherwise returns None, although the store may have the key.
        """
        first = self._first.get(access_key)
        if first is not None:
            return first
        self._forget_old()
        return self._known.get(access_key)

    def look_up(self, access_key: str) -> KnownKey | None:
        """Reads the key from the store; None if it is unknown or disabled. Thread-safe."""
        opened = None if self._keys is None else self._keys.open(access_key)
        if opened is None:
            return None
        info, secret = opened
        return KnownKey(secret, info.policy == ROOT_POLICY, info.inflight_max)

    def remember(self, access_key: str, known: KnownKey, *, generation: int) -> None:
        """Caches a key, unless the store's keys changed since it was looked up.

        The caller must read the property `generation` before it looks up the key, and pass its
        value here.
        """
        self._forget_old()
        if generation != self._generation:
            return
        self._known[access_key] = known
        if len(self._known) > self._count_max:
            self._known.popitem(last=False)

    def note_use(self, access_key: str, now_s: int) -> None:
        """Records when the key was used, at most once an hour per key. Does not wait.

        Does nothing for the key from the server's environment, which is not stored.
        """
        if self._keys is None or access_key in self._first:
            return
        if now_s - self._noted_s.get(access_key, -_USE_NOTED_S) >= _USE_NOTED_S:
            self._noted_s[access_key] = now_s
            self._keys.note_use(access_key, used_ms=now_s * 1000)

    def _forget_old(self) -> None:
        if self.generation != self._generation:
            self._generation = self.generation
            self._known.clear()
