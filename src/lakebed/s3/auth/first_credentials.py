"""The first credentials of a store, from the environment or created if the store has no keys.

Credentials from the environment are never stored. Created credentials are stored as an access key
that is exempt from the request limit per key. Their secret is returned only when they are created,
with `is_new` set.
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
    """The credentials from the environment, or those of an access key that was just created."""

    credentials: Credentials | None  # None if the environment has none but the store has keys
    is_new: bool  # whether the key was just created, so that the caller must show its secret now


def first_credentials(environment: Mapping[str, str], keys: AccessKeys) -> FirstCredentials:
    """Returns the credentials from the environment, or else creates a key if the store has none.

    Raises `BadConfig` if the environment has only one of the two variables, or an invalid value.
    """
    configured = given_credentials(environment)
    if configured is not None:
        return FirstCredentials(configured, is_new=False)
    if keys.list():
        return FirstCredentials(None, is_new=False)
    created = keys.create(label=_LABEL, policy=ROOT_POLICY)
    return FirstCredentials(Credentials(created.info.access_key, created.secret), is_new=True)


def given_credentials(environment: Mapping[str, str]) -> Credentials | None:
    """Returns the credentials from the environment, or None if both variables are unset or empty.

    Raises `BadConfig` if only one variable is set or a value is not valid.
    """
    access_key = environment.get(ACCESS_KEY_VARIABLE, "")
    secret = environment.get(SECRET_KEY_VARIABLE, "")
    return _checked(access_key, secret) if access_key or secret else None


def _checked(access_key: str, secret: str) -> Credentials:
    if not access_key or not secret:
        missing = SECRET_KEY_VARIABLE if access_key else ACCESS_KEY_VARIABLE
        raise BadConfig(
            f"{missing} is not set, or is empty: set both {ACCESS_KEY_VARIABLE} and "
            f"{SECRET_KEY_VARIABLE}"
        )
    if not _ACCESS_KEY.fullmatch(access_key):
        raise BadConfig(
            f"{ACCESS_KEY_VARIABLE} must be 3 to 128 characters: letters, digits, or any of "
            ". _ @ + ~ -"
        )
    has_valid_characters = secret.isascii() and secret.isprintable() and secret.strip() == secret
    if not (
        has_valid_characters and _SECRET_CHARACTERS_MIN <= len(secret) <= _SECRET_CHARACTERS_MAX
    ):
        raise BadConfig(
            f"{SECRET_KEY_VARIABLE} must be {_SECRET_CHARACTERS_MIN} to "
            f"{_SECRET_CHARACTERS_MAX} printable ASCII characters, with no space at either end"
        )
    return Credentials(access_key, secret)
