"""The authenticated signer of a request, and what the request announced about its body."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class PayloadKind(Enum):
    """How a body is sent and signed, from the header or query parameter `x-amz-content-sha256`."""

    SIGNED = "a SHA-256 of the body, to be checked"
    UNSIGNED = "UNSIGNED-PAYLOAD"
    CHUNKS_SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    CHUNKS_SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    CHUNKS_UNSIGNED = "STREAMING-UNSIGNED-PAYLOAD"
    CHUNKS_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

    @property
    def is_chunked(self) -> bool:
        return self.value.startswith("STREAMING-")


class Payload(NamedTuple):
    """What a request announced about its body. The signature covers this announcement."""

    kind: PayloadKind
    sha256: str = ""  # in hex, if the kind is SIGNED
    signing_key: bytes = b""  # this and the fields below are for checking signed chunks
    seed_signature: str = ""
    date: str = ""
    scope: str = ""


class Identity(NamedTuple):
    access_key: str
    payload: Payload
    inflight_max: int | None = None  # the key's own request limit; None: the endpoint's default
    is_exempt: bool = False  # whether the key has no request limit, like the first credentials
