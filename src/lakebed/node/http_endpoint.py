"""The HTTP endpoint of a node, for clients with an access key.

Except for public calls and pages, every request has the access key and its secret in HTTP Basic
authentication. So the port needs TLS or must listen on loopback, unless the operator declares the
network as trusted.
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
    """Creates the endpoint in the running event loop.

    `first` are credentials that are valid in addition to the keys of the store. `wrap` may return a
    handler that handles some requests itself and passes the others to the API.
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
