"""`lakebed.connect`: opens a store, or connects to the process that already has it open.

    with lakebed.connect("data") as store: ...      # opens "data", or uses the writer's socket
    with lakebed.connect("https://host:9100", access_key=…, secret_key=…) as store: ...

The first process to connect to a root opens it and serves its socket; later processes use that
socket. While a writer is opening or closing a store, the root is locked but the socket does not
exist; `connect` waits until this is over. If the process that holds the lock serves no socket for
too long (for example because it opened only an `AofManager`), `connect` raises `Locked`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from secrets import randbits
from typing import TypeVar

from lakebed.api.problems import Unreachable
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Busy, Closed, InputError, Locked
from lakebed.base.files import PathLike
from lakebed.base.retry import Backoff, RetryPolicy
from lakebed.base.runner import Runner, ThreadRunner
from lakebed.client.address import address_of, is_url
from lakebed.client.retry_schedule import RETRY_S
from lakebed.client.store import RemoteStore
from lakebed.host.store import Store

POLICY = RetryPolicy(delay_ms_first=5.0, delay_ms_max=250.0, jitter=0.5)

Opened = TypeVar("Opened")
Served = TypeVar("Served")


def connect(
    url_or_root: PathLike,
    *,
    access_key: str | None = None,
    secret_key: str | None = None,
    ca_file: PathLike | None = None,
    retry_s: float = RETRY_S,
) -> Store | RemoteStore:
    """Connects to the store at a URL or in a root; opens a root that is not open for writing yet.

    A server at a URL is not contacted before the first call on the store. Calls on the store are
    retried for up to `retry_s` seconds if there is no response or the server is busy, but only if
    that is safe. While a root is locked but not served, `connect` tries again for up to `retry_s`
    seconds, and then raises `Locked`.
    """
    if is_url(url_or_root):
        return RemoteStore.open(
            url_or_root,
            access_key=access_key,
            secret_key=secret_key,
            ca_file=ca_file,
            retry_s=retry_s,
        )
    if access_key is not None or secret_key is not None or ca_file is not None:
        raise InputError(
            "access_key, secret_key and ca_file are only for URLs; omit them to connect to a store "
            "in a folder"
        )
    with ThreadRunner() as runner:
        return first_of(
            lambda: served(url_or_root, retry_s=retry_s),
            lambda: Store.open(url_or_root),
            runner=runner,
            random=Random(randbits(64)),
            wait_s=retry_s,
        )


def served(root: PathLike, *, retry_s: float) -> RemoteStore | None:
    """Returns the store at the root's local socket, or None if no process serves the socket now, or
    if the server is busy or shutting down."""
    address = address_of(root)
    with RemoteStore(address, retry_s=0) as probe:
        try:
            if probe.health().status != "ok":
                return None
        except (Unreachable, Busy, Closed):
            return None
    return RemoteStore(address, retry_s=retry_s)


def first_of(
    find_served: Callable[[], Served | None],
    open_here: Callable[[], Opened],
    *,
    runner: Runner,
    random: Random,
    wait_s: float,
) -> Served | Opened:
    """Tries `find_served` and `open_here` in turn until one of them returns a store.

    Tries again while `find_served` returns None and `open_here` raises `Locked`, for up to `wait_s`
    seconds; then raises `Locked`.
    """
    backoff = Backoff(POLICY, random)
    until_ns = runner.clock.monotonic_ns() + round(wait_s * NS_PER_S)
    while True:
        store = find_served()
        if store is not None:
            return store
        try:
            return open_here()
        except Locked as error:
            delay_ns = backoff.next_ns()
            if runner.clock.monotonic_ns() + delay_ns > until_ns:
                raise Locked(
                    f"{error}; that process does not serve the store's socket: it opened "
                    "only logs (`AofManager`), opened the store with `serves=False`, could not "
                    "create the socket (see its log), is busy, or is still opening or closing the "
                    "store; try again, or stop that process"
                ) from None
        runner.sleep_ns(delay_ns)
