"""The first credentials: from the environment, or made once for a store that has no keys.

Those of the environment are never stored. Those that were made are a key of the store like others,
but exempt from limits; they are told by whoever gets them with `is_new`, and never again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from lakebed.base.errors import BadConfig
from lakebed.seglake.access_keys import ROOT_POLICY, AccessKeys
from lakebed.seglake.key_ring import Credentials

ACCESS_KEY_VARIABLE = "LAKEBED_ACCESS_KEY"
SECRET_KEY_VARIABLE = "LAKEBED_SECRET_KEY"  # noqa: S105 - a variable's name

_LABEL = "first credentials"
_ACCESS_KEY = re.compile(r"[A-Za-z0-9._@+~-]{3,128}")
_SECRET_CHARACTERS_MIN, _SECRET_CHARACTERS_MAX = 8, 256


class FirstCredentials(NamedTuple):
    """`credentials` are for the key ring; None if the store's keys have to do."""

    credentials: Credentials | None
    is_new: bool  # to be told now, or never


def first_credentials(environment: Mapping[str, str], keys: AccessKeys) -> FirstCredentials:
    """Made, if the environment has none and the store has no key."""
    given = given_credentials(environment)
    if given is not None:
        return FirstCredentials(given, is_new=False)
    if keys.list():
        return FirstCredentials(None, is_new=False)
    made = keys.create(label=_LABEL, policy=ROOT_POLICY)
    return FirstCredentials(Credentials(made.info.access_key, made.secret), is_new=True)


def given_credentials(environment: Mapping[str, str]) -> Credentials | None:
    """An empty variable is unset; one without the other is a mistake."""
    access_key = environment.get(ACCESS_KEY_VARIABLE, "")
    secret = environment.get(SECRET_KEY_VARIABLE, "")
    return _checked(access_key, secret) if access_key or secret else None


def _checked(access_key: str, secret: str) -> Credentials:
    if not access_key or not secret:
        missing = SECRET_KEY_VARIABLE if access_key else ACCESS_KEY_VARIABLE
        raise BadConfig(f"{missing} is not set: {ACCESS_KEY_VARIABLE} and it belong together")
    if not _ACCESS_KEY.fullmatch(access_key):
        raise BadConfig(
            f"{ACCESS_KEY_VARIABLE}: expected 3 to 128 letters, digits or any of . _ @ + ~ -"
        )
    is_fit = secret.isascii() and secret.isprintable() and secret.strip() == secret
    if not (is_fit and _SECRET_CHARACTERS_MIN <= len(secret) <= _SECRET_CHARACTERS_MAX):
        raise BadConfig(
            f"{SECRET_KEY_VARIABLE}: expected {_SECRET_CHARACTERS_MIN} to "
            f"{_SECRET_CHARACTERS_MAX} printable ASCII characters, no space at either end"
        )
    return Credentials(access_key, secret)
