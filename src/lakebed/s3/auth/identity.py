"""Who asks, and what they say about the body."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class PayloadKind(Enum):
    """By `x-amz-content-sha256`."""

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
    """What was said about the body when the request was signed."""

    kind: PayloadKind
    sha256: str = ""  # in hex, of a signed one
    signing_key: bytes = b""  # of signed chunks, with what their signatures go on from
    seed_signature: str = ""
    date: str = ""
    scope: str = ""


class Identity(NamedTuple):
    access_key: str
    payload: Payload
    inflight_max: int | None = None  # so many requests at a time; None: as many as any key
    is_exempt: bool = False  # from the limit of one access key: the first credentials are
