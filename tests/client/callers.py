"""Callers for tests: their waiting is written down and takes no time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from lakebed.client.address import Address, Credentials
from lakebed.client.caller import Caller
from tests.client.scripted import GIVE_UP_S, Act, HastyRunner, ScriptedServer, scripted

KNOWN = Credentials("known", "s3cr3t")


class Scene(NamedTuple):
    server: ScriptedServer
    caller: Caller
    runner: HastyRunner


@contextmanager
def calling(
    *acts: Act, retry_s: float = 10.0, answer_s: float = GIVE_UP_S, address: Address | None = None
) -> Iterator[Scene]:
    """A caller of a server that does these things."""
    with scripted(*acts) as server:
        runner = HastyRunner()
        where = address or Address(host="127.0.0.1", port=server.port, credentials=KNOWN)
        caller = Caller(where, runner=runner, random=Random(7), retry_s=retry_s, answer_s=answer_s)
        try:
            yield Scene(server, caller, runner)
        finally:
            caller.close()
