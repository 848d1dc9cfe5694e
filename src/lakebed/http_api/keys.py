"""Access keys: created, listed, disabled and enabled. A secret is told by its creation alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lakebed.api import objects
from lakebed.api.operation import Operation
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service
from lakebed.seglake.keys import KeyInfo


async def list_keys(service: Service, _call: Call) -> objects.KeyList:
    lake = await service.lake()
    return objects.KeyList(list(map(state_of, await service.run(lake.keys.list))))


async def create_key(service: Service, call: Call) -> objects.CreatedKey:
    asked = await call.document(objects.NewKey)
    lake = await service.lake()
    create = partial(lake.keys.create, label=asked.label, inflight_max=asked.inflight_max)
    made = await service.run(create)
    return objects.CreatedKey(state_of(made.info), made.secret)


async def enable_key(service: Service, call: Call) -> objects.KeyState:
    asked = await call.document(objects.SetEnabled)
    lake = await service.lake()
    change = lake.keys.enable if asked.is_enabled else lake.keys.disable
    return state_of(await service.run(partial(change, call.names["access_key"])))


def state_of(info: KeyInfo) -> objects.KeyState:
    return objects.KeyState(
        access_key=info.access_key,
        label=info.label,
        policy=info.policy,
        is_enabled=info.is_enabled,
        inflight_max=info.inflight_max,
        created_ms=info.created_ms,
        last_used_ms=info.last_used_ms,
    )


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    objects.LIST_KEYS: list_keys,
    objects.CREATE_KEY: create_key,
    objects.ENABLE_KEY: enable_key,
}
