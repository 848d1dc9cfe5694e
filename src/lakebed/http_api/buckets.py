"""Buckets: listed, created, configured, deleted, and their objects listed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lakebed.api import objects
from lakebed.api.operation import Operation
from lakebed.base.errors import InputError
from lakebed.base.units import shown
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.model import BucketInfo, Versioning

UNVERSIONED: Final = "unversioned"  # what people say for `disabled`


async def list_buckets(service: Service, _call: Call) -> objects.BucketList:
    lake = await service.lake()
    return objects.BucketList(list(map(state_of, await service.run(lake.buckets.list))))


async def ensure_bucket(service: Service, call: Call) -> objects.BucketState:
    asked = await call.document(objects.NewBucket)
    versioning = None if asked.versioning is None else versioning_of(asked.versioning)
    lake = await service.lake()
    change = lake.buckets.creation(call.names["bucket"], versioning=versioning)
    return state_of(await service.commit(change))


async def describe_bucket(service: Service, call: Call) -> objects.BucketState:
    lake = await service.lake()
    return state_of(await service.run(partial(lake.buckets.get, call.names["bucket"])))


async def set_versioning(service: Service, call: Call) -> objects.BucketState:
    asked = await call.document(objects.SetVersioning)
    lake = await service.lake()
    change = lake.buckets.configuration(call.names["bucket"], versioning_of(asked.versioning))
    return state_of(await service.commit(change))


async def delete_bucket(service: Service, call: Call) -> None:
    lake = await service.lake()
    await service.run(partial(lake.buckets.check_deletable, call.names["bucket"]))
    while not await service.commit(lake.buckets.deletion(call.names["bucket"])):
        pass


async def list_objects(service: Service, call: Call) -> objects.ObjectPage:
    lake = await service.lake()
    query: objects.ListQuery = call.query

    def work() -> objects.ObjectPage:
        page = lake.objects.list(
            call.names["bucket"],
            prefix=query.prefix,
            delimiter=query.delimiter,
            after=query.after,
            max_keys=query.max_keys,
        )
        listed = list(map(_listed, page.items))
        return objects.ObjectPage(listed, list(page.prefixes), page.next_marker)

    return await service.run(work)


def versioning_of(text: str) -> Versioning:
    try:
        return Versioning.DISABLED if text == UNVERSIONED else Versioning(text)
    except ValueError:
        raise InputError(
            f"versioning {shown(text)}: it is {UNVERSIONED}, enabled or suspended"
        ) from None


def state_of(info: BucketInfo) -> objects.BucketState:
    return objects.BucketState(info.name, info.created_ms, info.versioning.value)


def _listed(row: VersionRow) -> objects.ListedObject:
    return objects.ListedObject(
        key=row.key,
        version_id=row.version_id,
        is_null=row.is_null,
        state=row.state.value,
        etag=row.etag,
        size=row.size,
        content_type=row.content_type,
        modified_ms=row.modified_ms,
    )


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    objects.LIST_BUCKETS: list_buckets,
    objects.ENSURE_BUCKET: ensure_bucket,
    objects.DESCRIBE_BUCKET: describe_bucket,
    objects.SET_VERSIONING: set_versioning,
    objects.DELETE_BUCKET: delete_bucket,
    objects.LIST_OBJECTS: list_objects,
}
