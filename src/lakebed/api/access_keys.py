"""The calls for access keys. A secret is returned only once, when the key is created."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Operation
from lakebed.seglake.model import RW_POLICY, CreatedKey, KeyInfo

_TAG = "keys"


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A new access key.

    `inflight_max` limits its concurrent requests; by default the endpoint's limit applies. The
    default of `policy` is the only value that is accepted.
    """

    label: str = ""
    inflight_max: Annotated[int, Meta(le=1 << 31)] | None = None
    policy: Annotated[str, Meta(pattern=f"^{RW_POLICY}$")] = RW_POLICY


class KeyList(Struct, frozen=True):
    keys: list[KeyInfo]


class SetEnabled(Struct, frozen=True, forbid_unknown_fields=True):
    is_enabled: bool


LIST_KEYS: Final = Operation(
    "list_keys", "GET", "/v1/keys", "List all access keys, without their secrets",
    KeyList, tag=_TAG, target="AccessKeys.list", is_repeatable=True,
)  # fmt: skip
CREATE_KEY: Final = Operation(
    "create_key", "POST", "/v1/keys", "Create an access key; its secret is returned only once",
    CreatedKey, body=NewKey, status=201, tag=_TAG, target="AccessKeys.create",
)  # fmt: skip
ENABLE_KEY: Final = Operation(
    "enable_key", "PATCH", "/v1/keys/{access_key}", "Disable or enable a key",
    KeyInfo, body=SetEnabled, tag=_TAG, target="AccessKeys.set_enabled", is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (LIST_KEYS, CREATE_KEY, ENABLE_KEY)
