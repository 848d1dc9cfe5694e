"""Authenticates S3 requests: each must be signed with a known access key.

The checks, in order: the request has exactly one signature; service, region and time are right; the
key is known; all required headers are signed; the signature matches (compared in constant time);
the signature covers the body, unless the configuration allows unsigned bodies; and, if repeated
signatures are refused, the signature is new (not checked for presigned URLs). Error codes, and
messages where AWS has one, are those of AWS. The body is not read here: the identity's `payload`
holds what the request announced about it.

The authenticator runs in the event loop's thread. It does no I/O, except to read a key that is not
cached.
"""

from __future__ import annotations

import re
from time import gmtime, strftime

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.base.units import shown
from lakebed.http.request import Request
from lakebed.s3.auth import claims, sigv4
from lakebed.s3.auth.claims import Claim
from lakebed.s3.auth.identity import Identity, Payload, PayloadKind
from lakebed.s3.auth.replays import Replays
from lakebed.s3.auth.sigv4 import Pair
from lakebed.s3.errors import S3Error
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.key_ring import KeyRing, KnownKey

SKEW_S_MAX = 300

_SIGNED_PREFIX = "x-amz-"
_CONTENT_SHA256 = "x-amz-content-sha256"
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_KINDS = {kind.value: kind for kind in PayloadKind if kind is not PayloadKind.SIGNED}
_UNSIGNED = Payload(kind=PayloadKind.UNSIGNED)
_CHUNKS_ARE_SIGNED = (PayloadKind.CHUNKS_SIGNED, PayloadKind.CHUNKS_SIGNED_TRAILER)
_REGION_ALIASES = {"us": "us-east-1", "US": "us-east-1"}


class Authenticator:
    """Authenticates the requests of one S3 endpoint. Not thread-safe."""

    def __init__(self, keys: KeyRing, *, config: EndpointConfig, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._region = _REGION_ALIASES.get(config.region, config.region)
        self._takes_any_region = config.any_region
        self._takes_unsigned = config.allow_unsigned_payload
        self._signing_keys = sigv4.SigningKeys()
        self._replays = Replays(config, clock=clock) if config.replay_ttl_ms else None

    @property
    def replays_detected(self) -> int:
        return 0 if self._replays is None else self._replays.detected

    def authenticate(self, request: Request) -> Identity:
        """Returns the signer of the request and what it announced about its body.

        Raises `S3Error` if any check fails.
        """
        pairs = sigv4.query_pairs(request.raw_query)
        claim = _claim(request, pairs)
        now_s = self._clock.wall_ns() // NS_PER_S
        self._check_scope(claim)
        _check_time(claim, now_s)
        key = self._keys.find(claim.access_key)
        if key is None:
            raise S3Error(
                "InvalidAccessKeyId",
                "The AWS Access Key Id you provided does not exist in our records, or is disabled.",
                details=[("AWSAccessKeyId", claim.access_key)],
            )
        _check_coverage(claim, request)
        announced = _announced_payload(claim, request)
        payload = self._verify(claim, key, request, pairs, announced)
        self._check_payload(payload, request)
        if self._replays is not None and not claim.is_presigned:
            self._replays.check(claim.signature, access_key=claim.access_key)
        self._keys.note_use(claim.access_key, now_s)
        return Identity(claim.access_key, payload, key.inflight_max, key.is_first)

    def _check_scope(self, claim: Claim) -> None:
        malformed = claims.query_malformed if claim.is_presigned else claims.header_malformed
        if claim.service != sigv4.SERVICE:
            raise malformed(
                f"incorrect service {shown(claim.service)}. "
                f'This endpoint belongs to "{sigv4.SERVICE}".'
            )
        if claim.date != claim.timestamp[:8]:
            raise malformed(
                f"Invalid credential date {shown(claim.date)}. "
                f"This date is not the same as X-Amz-Date: {shown(claim.timestamp[:8])}."
            )
        if claim.region == self._region or self._takes_any_region:
            return
        if _REGION_ALIASES.get(claim.region) != self._region:
            error = malformed(
                f"the region {shown(claim.region)} is wrong; expecting '{self._region}'",
                details=[("Region", self._region)],
            )
            # A HEAD request gets no error document, so the region is also sent in a header.
            error.headers = [("x-amz-bucket-region", self._region)]
            raise error

    def _verify(
        self,
        claim: Claim,
        key: KnownKey,
        request: Request,
        pairs: list[Pair],
        announced: str,
    ) -> Payload:
        scope = sigv4.scope_text(claim.date, claim.region)
        signing_key = self._signing_keys.key(key.secret, date=claim.date, region=claim.region)
        if claim.is_presigned:
            pairs = [pair for pair in pairs if not claims.is_signature(pair[0])]
        values = sigv4.header_values(claim.signed.names, request.headers, request.fields)
        parts = sigv4.Parts(
            request.method,
            request.raw_path.decode("latin-1"),
            pairs,
            values or [""] * len(claim.signed.names),
            claim.signed,
            announced,
        )
        if values is None or not sigv4.is_signed_as(
            parts,
            claim.signature,
            signing_key=signing_key,
            timestamp=claim.timestamp,
            scope=scope,
        ):
            raise _mismatch(claim, parts, scope)
        return _payload(announced, claim, signing_key=signing_key, scope=scope)

    def _check_payload(self, payload: Payload, request: Request) -> None:
        if self._takes_unsigned or request.body.length == 0:
            return
        if payload.kind is not PayloadKind.SIGNED and payload.kind not in _CHUNKS_ARE_SIGNED:
            raise S3Error(
                "AccessDenied", "This server does not allow requests with an unsigned body."
            )


def _claim(request: Request, pairs: list[Pair]) -> Claim:
    headers = request.headers
    authorization = headers.get("authorization")
    parameters = claims.auth_parameters(pairs) if pairs else None
    if "x-amz-security-token" in headers:
        raise claims.invalid_token()
    if authorization is not None:
        if parameters:
            raise S3Error(
                "InvalidArgument",
                "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "
                "Signature query string parameter or the Authorization header should be specified",
                details=[("ArgumentName", "Authorization")],
            )
        return claims.claim_in_header(authorization, headers)
    if parameters:
        return claims.claim_in_query(parameters)
    raise S3Error("AccessDenied", "Access Denied")


def _check_time(claim: Claim, now_s: int) -> None:
    ahead_s = claim.time_s - now_s
    if claim.expires_s is None:
        if not -SKEW_S_MAX <= ahead_s <= SKEW_S_MAX:
            raise S3Error(
                "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.",
                details=[
                    ("RequestTime", claim.timestamp),
                    ("ServerTime", _time_text(now_s)),
                    ("MaxAllowedSkewMilliseconds", str(SKEW_S_MAX * 1000)),
                ],
            )
    elif ahead_s > SKEW_S_MAX:
        raise S3Error(
            "AccessDenied",
            "Request is not yet valid",
            details=[("X-Amz-Date", claim.timestamp), ("ServerTime", _time_text(now_s))],
        )
    elif ahead_s + claim.expires_s < 0:
        raise S3Error(
            "AccessDenied",
            "Request has expired",
            details=[
                ("X-Amz-Expires", str(claim.expires_s)),
                ("Expires", _time_text(claim.time_s + claim.expires_s)),
                ("ServerTime", _time_text(now_s)),
            ],
        )


def _check_coverage(claim: Claim, request: Request) -> None:
    """Raises `S3Error` unless the host, the date and every `x-amz-` header are signed.

    The date of a presigned URL is in its query. Also raises `S3Error` if `SignedHeaders` names a
    header twice.
    """
    signed = claim.signed.lookup
    missing = [
        name for name in request.headers if name not in signed and name.startswith(_SIGNED_PREFIX)
    ]
    if "host" not in signed:
        missing.append("host")
    if "x-amz-date" not in request.headers and "date" not in signed and not claim.is_presigned:
        missing.append("date")
    if missing:
        raise S3Error(
            "AccessDenied",
            "There were headers present in the request which were not signed",
            details=[("HeadersNotSigned", ", ".join(sorted(missing)))],
        )
    if len(signed) != len(claim.signed.names):
        malformed = claims.query_malformed if claim.is_presigned else claims.header_malformed
        raise malformed("SignedHeaders names a header more than once.")


def _announced_payload(claim: Claim, request: Request) -> str:
    """Returns the value of `x-amz-content-sha256`, from the query or the headers.

    A presigned URL without the value has an unsigned body. Raises `S3Error` if the value is not
    valid, or missing in a request with an `Authorization` header.
    """
    announced = claim.payload or request.headers.get(_CONTENT_SHA256)
    if announced is None:
        if not claim.is_presigned:
            message = f"Missing required header for this request: {_CONTENT_SHA256}"
            raise S3Error("InvalidRequest", message)
        return PayloadKind.UNSIGNED.value
    if announced not in _KINDS and not _SHA256.fullmatch(announced):
        raise S3Error(
            "InvalidArgument",
            f"{_CONTENT_SHA256} must be {', '.join(_KINDS)}, or a valid sha256 value.",
            details=[("ArgumentName", _CONTENT_SHA256), ("ArgumentValue", announced)],
        )
    return announced


def _payload(announced: str, claim: Claim, *, signing_key: bytes, scope: str) -> Payload:
    kind = _KINDS.get(announced)
    if kind is None:
        return Payload(kind=PayloadKind.SIGNED, sha256=announced.lower())
    if kind is PayloadKind.UNSIGNED:
        return _UNSIGNED
    if kind not in _CHUNKS_ARE_SIGNED:
        return Payload(kind=kind)
    return Payload(
        kind=kind,
        signing_key=signing_key,
        seed_signature=claim.signature,
        date=claim.timestamp,
        scope=scope,
    )


def _mismatch(claim: Claim, parts: sigv4.Parts, scope: str) -> S3Error:
    """Returns the error for a wrong signature, with the text that the client should have signed."""
    canonical = parts.re_encoded
    text = sigv4.string_to_sign(canonical, timestamp=claim.timestamp, scope=scope)
    return S3Error(
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided. "
        "Check your key and signing method.",
        details=[
            ("AWSAccessKeyId", claim.access_key),
            ("StringToSign", text),
            ("SignatureProvided", claim.signature),
            ("StringToSignBytes", text.encode("latin-1").hex(" ")),
            ("CanonicalRequest", canonical.decode("utf-8", "replace")),
            ("CanonicalRequestBytes", canonical.hex(" ")),
        ],
    )


def _time_text(seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))
