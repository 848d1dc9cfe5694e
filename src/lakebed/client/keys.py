"""Access keys of a store that another process has open: as `lakebed.seglake.keys.Keys`."""

from __future__ import annotations

import builtins

from lakebed.api import objects as wire
from lakebed.base.units import shown
from lakebed.client.caller import Caller
from lakebed.seglake.errors import NoSuchAccessKey
from lakebed.seglake.model import CreatedKey, KeyInfo


class RemoteKeys:
    """Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(self, *, label: str = "", inflight_max: int | None = None) -> CreatedKey:
        """A new key with a new secret, which is told this once."""
        body = wire.NewKey(label=label, inflight_max=inflight_max)
        created = self._caller.call(wire.CREATE_KEY, body=body)
        return CreatedKey(_info_of(created.key), created.secret)

    def list(self) -> builtins.list[KeyInfo]:
        """The oldest first."""
        return [_info_of(state) for state in self._caller.call(wire.LIST_KEYS).keys]

    def get(self, access_key: str) -> KeyInfo:
        """`NoSuchAccessKey` if there is none."""
        for info in self.list():
            if info.access_key == access_key:
                return info
        raise NoSuchAccessKey(f"there is no access key {shown(access_key)}")

    def disable(self, access_key: str) -> KeyInfo:
        """Nothing signed with it is accepted any more. Fine if it is disabled already."""
        return self._set_enabled(access_key, is_enabled=False)

    def enable(self, access_key: str) -> KeyInfo:
        """Undo `disable`."""
        return self._set_enabled(access_key, is_enabled=True)

    def _set_enabled(self, access_key: str, *, is_enabled: bool) -> KeyInfo:
        body = wire.SetEnabled(is_enabled=is_enabled)
        return _info_of(self._caller.call(wire.ENABLE_KEY, {"access_key": access_key}, body=body))


def _info_of(state: wire.KeyState) -> KeyInfo:
    return KeyInfo(
        access_key=state.access_key,
        label=state.label,
        policy=state.policy,
        is_enabled=state.is_enabled,
        inflight_max=state.inflight_max,
        created_ms=state.created_ms,
        last_used_ms=state.last_used_ms,
    )
