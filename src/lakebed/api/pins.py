"""The calls for pins: creating, renewing, releasing and listing them for remote readers."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Nothing, Operation
from lakebed.api.topics import Count
from lakebed.store.pin_file import Pin

_TAG = "pins"

DurationMs = Annotated[int, Meta(ge=1, le=7 * 24 * 3600 * 1000)]


class NewPin(Struct, frozen=True, forbid_unknown_fields=True):
    """A new pin, which protects the range from `start` up to, but not including, `end`.

    The range is of segment ids if `log` is given, or of offsets if `topic` and `partition` are.
    """

    start: Count
    end: Count
    duration_ms: DurationMs
    owner: Annotated[str, Meta(min_length=1, max_length=200)]
    log: str | None = None
    topic: str | None = None
    partition: int | None = None


class RenewPin(Struct, frozen=True, forbid_unknown_fields=True):
    duration_ms: DurationMs


class RenewPins(Struct, frozen=True, forbid_unknown_fields=True):
    pin_ids: list[str]
    duration_ms: DurationMs


class RenewedPins(Struct, frozen=True):
    pin_ids: list[str]  # those that were neither released nor had expired


class ReleasePins(Struct, frozen=True, forbid_unknown_fields=True):
    pin_ids: list[str]


class PinList(Struct, frozen=True):
    pins: list[Pin]


LIST_PINS: Final = Operation(
    "list_pins", "GET", "/v1/pins", "List the pins that are in effect",
    PinList, tag=_TAG, target="Pins.all_active", is_repeatable=True,
)  # fmt: skip
CREATE_PIN: Final = Operation(
    "create_pin", "POST", "/v1/pins",
    "Protect segments or offsets from retention for a limited time",
    Pin, body=NewPin, status=201, tag=_TAG, target="Pins.create", is_repeatable=True,
)  # fmt: skip
RENEW_PIN: Final = Operation(
    "renew_pin", "PUT", "/v1/pins/{pin}", "Renew a pin, so that it lasts for a time from now",
    Pin, body=RenewPin, tag=_TAG, target="Pins.renew", is_repeatable=True,
)  # fmt: skip
RENEW_PINS: Final = Operation(
    "renew_pins", "POST", "/v1/pins/renew",
    "Renew several pins; those that were released or have expired are left out",
    RenewedPins, body=RenewPins, tag=_TAG, target="Pins.renew_all", is_repeatable=True,
)  # fmt: skip
RELEASE_PINS: Final = Operation(
    "release_pins", "POST", "/v1/pins/release", "Remove several pins",
    Nothing, body=ReleasePins, status=204, tag=_TAG, target="Pins.release_all", is_repeatable=True,
)  # fmt: skip
RELEASE_PIN: Final = Operation(
    "release_pin", "DELETE", "/v1/pins/{pin}", "Remove a pin",
    Nothing, status=204, tag=_TAG, target="Pins.release", is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_PINS, CREATE_PIN, RENEW_PIN, RELEASE_PIN, RENEW_PINS, RELEASE_PINS,
)  # fmt: skip
