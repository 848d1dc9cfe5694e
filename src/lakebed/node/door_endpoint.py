"""The HTTP API of a node: the store's door, for whoever has one of its access keys.

Keys and secrets come with every request, as HTTP Basic: so they go over TLS, or stay on this
machine, unless whoever runs the node says that the network may be trusted.
"""

from __future__ import annotations

import ipaddress

from lakebed.base.errors import InputError
from lakebed.door.doorman import Door
from lakebed.door.key_guard import KeyGuard
from lakebed.seglake.key_ring import Credentials, KeyRing
from lakebed.store.store import Store
from lakebed.store.works import WORKS


def door_endpoint(store: Store, *, first: Credentials | None) -> Door:
    """In the running loop, and of its thread."""
    clock = store.runner.clock
    return Door(store, guard=KeyGuard(KeyRing(first, store.lake.keys), clock=clock), works=WORKS)


def check_exposure(host: str, *, is_secure: bool, is_allowed: bool) -> None:
    """`InputError` if secrets would leave this machine in clear."""
    if is_secure or is_allowed or is_loopback(host):
        return
    raise InputError(
        f"--http-host {host}: without TLS access keys would be sent in clear: give --tls-cert and "
        "--tls-key, or --http-insecure if the network can be trusted"
    )


def is_loopback(host: str) -> bool:
    """Of a name only `localhost` is known to be."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
