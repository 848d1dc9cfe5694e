"""The store's lake, for the handlers: opened when the first asks, and changed without a thread."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from lakebed.base.errors import Busy
from lakebed.http.receiving import Receiving, Reception
from lakebed.http_api.service import Service
from lakebed.seglake.commits import Change, Pending
from lakebed.seglake.lake import Lake

Result = TypeVar("Result")

LARGE_MAX: Final = 16  # bodies on their way in, of about ten megabytes of memory each
PLACE_S: Final = 20.0

_receiving: Final[WeakKeyDictionary[Service, Receiving]] = WeakKeyDictionary()
_opened: Final[WeakKeyDictionary[Service, Lake]] = WeakKeyDictionary()


async def lake_of(service: Service) -> Lake:
    lake = _opened.get(service)
    if lake is None:
        lake = _opened[service] = await service.run(lambda: service.store.lake)
    return lake


async def commit(service: Service, change: Change[Result]) -> Result:
    """What it did, once that is durable; `Busy` if too much waits for that already."""
    return await service.done(change.submit(timeout=0))


async def handed_over(service: Service, change: Change[Result]) -> Pending[Result]:
    """For what took long to come so far: it waits for its place in the queue."""
    try:
        return change.submit(timeout=0)
    except Busy:
        return await service.run(lambda: change.submit(timeout=PLACE_S))


def receiving(service: Service) -> AbstractContextManager[Reception]:
    """A body on its way in."""
    return _receiving.setdefault(service, Receiving(large_max=LARGE_MAX)).body()
