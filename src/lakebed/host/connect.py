"""One call for programs that do not care who has the store open.

    with lakebed.connect("data") as store: ...           # opened here, or the writer's socket
    with lakebed.connect("https://host:9100", access_key=…, secret_key=…) as store: ...

Of a root, whoever comes first opens it, and serves its socket; the others go through that. Between
the lock and the socket a writer that is just opening or closing has one without the other: that is
waited out. A lock whose holder never serves a socket (a bare `AofManager`) ends in `Locked`.
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
    """Connects to the store at a URL or in a root; opens the root if no other process has it open.

    A URL is not contacted before the first call. For `retry_s` seconds calls that are safe to
    repeat are retried while there is no response, and a locked root is waited for.
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
        raise InputError("keys and certificates are for URLs: a root's socket asks for none")
    with ThreadRunner() as runner:
        return first_of(
            lambda: served(url_or_root, retry_s=retry_s),
            lambda: Store.open(url_or_root),
            runner=runner,
            random=Random(randbits(64)),
            wait_s=retry_s,
        )


def served(root: PathLike, *, retry_s: float) -> RemoteStore | None:
    """The store through its socket, if somebody serves it now."""
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
    """Whichever works; `Locked` if neither does for that long."""
    backoff = Backoff(POLICY, random)
    until_ns = runner.clock.monotonic_ns() + round(wait_s * NS_PER_S)
    while True:
        found = find_served()
        if found is not None:
            return found
        try:
            return open_here()
        except Locked as error:
            delay_ns = backoff.next_ns()
            if runner.clock.monotonic_ns() + delay_ns > until_ns:
                raise Locked(
                    f"{error}; and whoever holds it serves no socket: it has its logs alone "
                    "open, or does not finish opening or closing the store"
                ) from None
        runner.sleep_ns(delay_ns)
