"""The HTTP API of a node and its pages, for clients with an access key.

Every request carries the key and its secret as HTTP Basic. So the port needs TLS or must stay on
loopback, unless the operator declares the network trusted.
"""

from __future__ import annotations

from collections.abc import Callable

from lakebed.http.connection_limit import ConnectionLimit
from lakebed.http.limits import Limits
from lakebed.http.responder import Handler
from lakebed.http.server import Done
from lakebed.http_api.guard import Guard
from lakebed.http_api.key_guard import KeyGuard
from lakebed.http_api.origin_check import OriginCheck
from lakebed.http_api.server import HttpApi
from lakebed.seglake.key_ring import Credentials, KeyRing
from lakebed.store.store import Store


def http_endpoint(
    store: Store,
    *,
    first: Credentials | None,
    limits: Limits | None = None,
    room: ConnectionLimit | None = None,
    site: OriginCheck | None = None,
    wrap: Callable[[Handler, Guard], Handler] = lambda calls, _: calls,
    on_done: Done | None = None,
) -> HttpApi:
    """Creates the endpoint in the running loop. `wrap` returns the handler that runs before the
    API.
    """
    guard = KeyGuard(KeyRing(first, store.lake.keys), clock=store.runner.clock)
    return HttpApi(
        store,
        guard=guard,
        limits=limits,
        room=room,
        site=site,
        wrap=lambda calls: wrap(calls, guard),
        on_done=on_done,
    )
