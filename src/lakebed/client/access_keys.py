"""The access keys of a remote store: the remote form of
`lakebed.seglake.access_keys.AccessKeys`."""

from __future__ import annotations

import builtins

from lakebed.api import access_keys as wire
from lakebed.base.units import shown
from lakebed.client.caller import Caller
from lakebed.seglake.errors import NoSuchAccessKey
from lakebed.seglake.model import RW_POLICY, CreatedKey, KeyInfo


class RemoteAccessKeys:
    """The access keys of a remote store. Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(
        self, *, label: str = "", inflight_max: int | None = None, policy: str = RW_POLICY
    ) -> CreatedKey:
        """Creates an access key. This call is the only one that returns its secret."""
        body = wire.NewKey(label=label, inflight_max=inflight_max, policy=policy)
        return self._caller.call(wire.CREATE_KEY, body=body)

    def list(self) -> builtins.list[KeyInfo]:
        """Lists all access keys, oldest first."""
        return self._caller.call(wire.LIST_KEYS).keys

    def get(self, access_key: str) -> KeyInfo:
        """Returns the properties of an access key. Raises `NoSuchAccessKey` if there is no such
        key."""
        for info in self.list():
            if info.access_key == access_key:
                return info
        raise NoSuchAccessKey(f"access key {shown(access_key)} does not exist")

    def disable(self, access_key: str) -> KeyInfo:
        """Disables a key: requests with it are refused. Has no effect on a disabled key."""
        return self.set_enabled(access_key, is_enabled=False)

    def enable(self, access_key: str) -> KeyInfo:
        """Enables a disabled key."""
        return self.set_enabled(access_key, is_enabled=True)

    def set_enabled(self, access_key: str, *, is_enabled: bool) -> KeyInfo:
        """Enables or disables a key. Has no effect if the key already is in that state."""
        body = wire.SetEnabled(is_enabled=is_enabled)
        return self._caller.call(wire.ENABLE_KEY, {"access_key": access_key}, body=body)
