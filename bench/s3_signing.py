"""Requests of S3 that are signed ahead of time, so that the load generator only sends them."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

REGION = "us-east-1"
UNSIGNED = "UNSIGNED-PAYLOAD"


class Credentials(NamedTuple):
    access_key: str
    secret_key: str


def signed_headers(
    method: str, path: str, *, host: str, credentials: Credentials, query: Mapping[str, str]
) -> dict[str, str]:
    """For a body that is not signed: they are valid for some minutes."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    asked = "&".join(f"{name}={quote(value, safe='-._~')}" for name, value in sorted(query.items()))
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = (
        f"{method}\n{path}\n{asked}\nhost:{host}\nx-amz-content-sha256:{UNSIGNED}\n"
        f"x-amz-date:{now}\n\n{names}\n{UNSIGNED}"
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = _signing_key(credentials.secret_key, now[:8])
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    return {
        "Host": host,
        "x-amz-date": now,
        "x-amz-content-sha256": UNSIGNED,
        "Authorization": (
            f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        ),
    }


def _signing_key(secret_key: str, date: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (date, REGION, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    return key
