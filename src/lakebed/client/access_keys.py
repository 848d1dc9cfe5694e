"""Access keys of a store that another process has open: as
`lakebed.seglake.access_keys.AccessKeys`."""

from __future__ import annotations

import builtins

from lakebed.api import access_keys as wire
from lakebed.base.units import shown
from lakebed.client.caller import Caller
from lakebed.seglake.errors import NoSuchAccessKey
from lakebed.seglake.model import RW_POLICY, CreatedKey, KeyInfo


class RemoteAccessKeys:
    """Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(
        self, *, label: str = "", inflight_max: int | None = None, policy: str = RW_POLICY
    ) -> CreatedKey:
        """A new key with a new secret, which is returned this once."""
        body = wire.NewKey(label=label, inflight_max=inflight_max, policy=policy)
        return self._caller.call(wire.CREATE_KEY, body=body)

    def list(self) -> builtins.list[KeyInfo]:
        """The oldest first."""
        return self._caller.call(wire.LIST_KEYS).keys

    def get(self, access_key: str) -> KeyInfo:
        """`NoSuchAccessKey` if there is none."""
        for info in self.list():
            if info.access_key == access_key:
                return info
        raise NoSuchAccessKey(f"access key {shown(access_key)} does not exist")

    def disable(self, access_key: str) -> KeyInfo:
        """Nothing signed with it is accepted any more. Fine if it is disabled already."""
        return self.set_enabled(access_key, is_enabled=False)

    def enable(self, access_key: str) -> KeyInfo:
        """Undo `disable`."""
        return self.set_enabled(access_key, is_enabled=True)

    def set_enabled(self, access_key: str, *, is_enabled: bool) -> KeyInfo:
        """What is signed with a disabled key is refused. Fine if it is so already."""
        body = wire.SetEnabled(is_enabled=is_enabled)
        return self._caller.call(wire.ENABLE_KEY, {"access_key": access_key}, body=body)
