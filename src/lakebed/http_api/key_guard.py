"""Authenticates requests on a TCP port: HTTP Basic with an access key and its secret.

The key is one of the store's, or the one in the server's environment (the first credentials).

The response does not reveal why a request was refused: an unknown key, a disabled key and a wrong
secret get the same message after the same comparison. A refusal is logged with the client's address
and the key, never with the secret; a request without an `Authorization` header is not logged. At
most one refusal per second is logged, with the number of refusals that were not logged since the
last one.
"""

from __future__ import annotations

import asyncio
import binascii
import hmac
import logging
from base64 import b64decode
from typing import Final

from lakebed.api.problems import Unauthenticated
from lakebed.base.clock import NS_PER_S, Clock, SystemClock
from lakebed.base.events import RareEvent
from lakebed.http.request import Request
from lakebed.http_api.guard import Identity
from lakebed.seglake.key_ring import KeyRing, KnownKey

CREDENTIALS_CHARACTERS_MAX: Final = 1024
_NO_KEY: Final = KnownKey("", is_first=False, inflight_max=None)
_SHOWN_CHARACTERS: Final = 40
_LOOK_UPS_MAX: Final = 4  # at a time, so that unknown clients cannot use all threads


_log = logging.getLogger(__name__)


class KeyGuard:
    """Checks the access keys of requests. Used in the event loop's thread."""

    def __init__(self, keys: KeyRing, *, clock: Clock | None = None) -> None:
        self._keys = keys
        self._clock = clock or SystemClock()
        self._looking_up = asyncio.Semaphore(_LOOK_UPS_MAX)
        self._refusals = RareEvent(
            _log, "access_refused", level=logging.WARNING, clock=self._clock, every_ns=NS_PER_S
        )

    async def identify(self, request: Request) -> Identity:
        authorization = request.headers.get("authorization")
        if authorization is None:
            raise Unauthenticated("the request has no access key")
        try:
            access_key, secret = read_basic(authorization)
        except ValueError as error:
            self._note(request, "", str(error))
            raise Unauthenticated(f"the Authorization header is not valid: {error}") from None
        key = await self._find(access_key)
        is_right = hmac.compare_digest(secret.encode(), (key or _NO_KEY).secret.encode())
        if key is None or not is_right:
            self._note(request, access_key, "wrong key or secret")
            raise Unauthenticated("the access key is unknown or disabled, or its secret is wrong")
        self._keys.note_use(access_key, self._clock.wall_ns() // NS_PER_S)
        return Identity(access_key, key.inflight_max, is_exempt=key.is_first)

    def _note(self, request: Request, access_key: str, why: str) -> None:
        quoted = repr(access_key[:_SHOWN_CHARACTERS])
        self._refusals.note(peer=request.peer, access_key=quoted, why=why)

    async def _find(self, access_key: str) -> KnownKey | None:
        """Returns the key from the cache, or looks it up in another thread.

        Returns None if the key is unknown or disabled.
        """
        key = self._keys.remembered(access_key)
        if key is not None:
            return key
        async with self._looking_up:
            generation = self._keys.generation
            key = await asyncio.to_thread(self._keys.look_up, access_key)
        if key is not None:
            self._keys.remember(access_key, key, generation=generation)
        return key


def read_basic(authorization: str) -> tuple[str, str]:
    """Returns the access key and the secret in the value of an `Authorization` header.

    Raises `ValueError` if that is not a valid value with HTTP Basic credentials.
    """
    scheme, _, credentials = authorization.strip().partition(" ")
    if scheme.lower() != "basic":
        raise ValueError("the scheme must be Basic")
    if len(credentials) > CREDENTIALS_CHARACTERS_MAX:
        raise ValueError(f"the credentials are longer than {CREDENTIALS_CHARACTERS_MAX} characters")
    try:
        text = b64decode(credentials.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("the credentials must be UTF-8 text in base64") from None
    access_key, colon, secret = text.partition(":")
    if not colon or not access_key or "\0" in text:
        raise ValueError("the credentials must be an access key, a colon and its secret")
    return access_key, secret
