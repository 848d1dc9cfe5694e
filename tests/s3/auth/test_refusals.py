"""What is refused, and how Amazon would say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakebed.http.request import Request
from lakebed.s3.auth.identity import PayloadKind
from lakebed.s3.errors import STATUSES, S3Error
from tests.s3.auth.reference_signer import SCOPE, Signed, presigned, signed_by_header
from tests.s3.auth.signed_requests import (
    ACCESS_KEY,
    AT,
    EMPTY_SHA256,
    authenticator,
    made_request,
)

OTHER_SHA256 = "ab" * 32
QUERY = [(b"list-type", b"2")]


def refusal(request: Request, *, plus_s: int = 0, **settings: Any) -> S3Error:
    with pytest.raises(S3Error) as refused:
        authenticator(plus_s=plus_s, **settings).authenticate(request)
    assert refused.value.code in STATUSES
    return refused.value


def with_headers(signed: Signed, **changed: str | None) -> Request:
    """Sent with other headers than were signed; None takes one away."""
    headers: dict[str, str] = dict(signed.headers)
    for name, value in changed.items():
        headers.pop(name.replace("_", "-"), None)
        if value is not None:
            headers[name.replace("_", "-")] = value
    return made_request(signed.method, signed.target, headers)


def with_authorization(old: str, new: str, *, headers: Mapping[str, str] | None = None) -> Request:
    signed = signed_by_header(headers=headers)
    authorization = signed.headers["authorization"]
    assert old in authorization
    return with_headers(signed, authorization=authorization.replace(old, new))


def with_query(old: bytes, new: bytes) -> Request:
    signed = presigned(query=QUERY)
    assert old in signed.target
    return made_request(signed.method, signed.target.replace(old, new), signed.headers)


def test_the_reference_is_accepted() -> None:
    assert authenticator().authenticate(signed_by_header().request()).access_key == ACCESS_KEY
    assert authenticator().authenticate(presigned(query=QUERY).request()).access_key == ACCESS_KEY


# No claim, or one of another kind.


def test_a_request_without_a_signature_is_denied() -> None:
    error = refusal(made_request("GET", "/?prefix=a", {"host": "localhost"}))
    assert (error.code, str(error)) == ("AccessDenied", "Access Denied")


@pytest.mark.parametrize(
    ("target", "authorization"),
    [
        ("/", "AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg="),
        ("/?AWSAccessKeyId=A&Expires=1&Signature=x", None),
        ("/", f"AWS4-ECDSA-P256-SHA256 Credential={ACCESS_KEY}, SignedHeaders=host, Signature=0"),
    ],
)
def test_other_versions_of_signatures_are_refused_by_name(
    target: str, authorization: str | None
) -> None:
    headers = {"host": "localhost", "date": "Fri, 24 May 2013 00:00:00 GMT"}
    if authorization is not None:
        headers["authorization"] = authorization
    error = refusal(made_request("GET", target, headers))
    assert error.code == "InvalidRequest"
    assert str(error) == (
        "The authorization mechanism you have provided is not supported. "
        "Please use AWS4-HMAC-SHA256."
    )


def test_another_scheme_is_refused() -> None:
    error = refusal(made_request("GET", "/", {"host": "a", "authorization": "Basic dTpw"}))
    assert (error.code, str(error)) == ("InvalidArgument", "Unsupported Authorization Type")


def test_two_claims_at_once_are_refused() -> None:
    signed = presigned()
    headers = {**signed.headers, **signed_by_header().headers}
    error = refusal(made_request("GET", signed.target, headers))
    assert error.code == "InvalidArgument"
    assert str(error).startswith("Only one auth mechanism allowed")


def test_session_tokens_are_refused() -> None:
    signed = signed_by_header(headers={"x-amz-security-token": "token"})
    assert refusal(signed.request()).code == "InvalidToken"
    token = (b"X-Amz-Security-Token", b"token")
    assert refusal(presigned(query=[token]).request()).code == "InvalidToken"


# Claims that are not well-formed.


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Credential=", "Credentials="),
        ("Signature=", "Credential=a, Signature="),
        (", Signature=", " Signature="),
        ("SignedHeaders=host;x-amz-content-sha256;x-amz-date, ", ""),
        ("SignedHeaders=host;x-amz-content-sha256;x-amz-date", "SignedHeaders="),
        ("/aws4_request", "/aws5_request"),
        ("/s3/aws4_request", "/aws4_request"),
        (f"{ACCESS_KEY}/", "/"),
        ("/20130524/", "/20130525/"),
        ("/s3/", "/ec2/"),
        (" Credential=", " "),
        ("Signature=", "Signature"),
        ("host;", "host;host;"),
        (", Signature=", ", SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="),
    ],
)
def test_a_header_that_is_not_well_formed_is_refused(old: str, new: str) -> None:
    error = refusal(with_authorization(old, new))
    assert error.code == "AuthorizationHeaderMalformed"
    assert str(error).startswith("The authorization header is malformed; ")


@pytest.mark.parametrize("spacing", [",", ",  ", ", "])
def test_parts_of_the_header_may_stand_close_or_apart(spacing: str) -> None:
    request = with_authorization(", ", spacing)
    assert authenticator().authenticate(request).access_key == ACCESS_KEY


def test_parts_of_the_header_may_come_in_any_order() -> None:
    headers = signed_by_header().headers
    scheme, _, rest = headers["authorization"].partition(" ")
    turned = f"{scheme} " + ", ".join(reversed(rest.split(", ")))
    request = with_headers(signed_by_header(), authorization=turned)
    assert authenticator().authenticate(request).access_key == ACCESS_KEY


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"X-Amz-Algorithm=AWS4-HMAC-SHA256&", b""),
        (b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256"),
        (f"X-Amz-Date={AT}&".encode(), b""),
        (AT.encode(), b"20130524"),
        (AT.encode(), b"20131324T000000Z"),
        (b"X-Amz-Expires=3600&", b""),
        (b"Expires=3600", b"Expires=0"),
        (b"Expires=3600", b"Expires=-5"),
        (b"Expires=3600", b"Expires=604801"),
        (b"Expires=3600", b"Expires=1e3"),
        (b"Expires=3600", b"Expires=" + b"9" * 5000),
        (b"Expires=3600", b"Expires=%D9%A3"),
        (b"SignedHeaders=host", b"SignedHeaders="),
        (b"SignedHeaders=host", b"SignedHeaders=host;host"),
        (b"%2Faws4_request", b""),
        (b"%2Fs3%2F", b"%2Fec2%2F"),
        (b"%2Fus-east-1%2F", b"%2Feu-west-1%2F"),
        (b"X-Amz-Expires=3600", b"X-Amz-Expires=3600&X-Amz-Expires=3600"),
        (b"X-Amz-Signature=", b"X-Amz-Signature=a&X%2DAmz-Signature="),
    ],
)
def test_a_query_that_is_not_well_formed_is_refused(old: bytes, new: bytes) -> None:
    assert refusal(with_query(old, new)).code == "AuthorizationQueryParametersError"


# Where and when.


def test_another_region_is_refused_and_the_right_one_told() -> None:
    error = refusal(with_authorization("us-east-1", "eu-west-1"))
    assert error.code == "AuthorizationHeaderMalformed"
    assert dict(error.details)["Region"] == "us-east-1"
    assert ("x-amz-bucket-region", "us-east-1") in error.headers
    assert "the region 'eu-west-1' is wrong; expecting 'us-east-1'" in str(error)


def test_another_region_is_accepted_where_any_is() -> None:
    request = signed_by_header(region="eu-west-1").request()
    assert authenticator(any_region=True).authenticate(request).access_key == ACCESS_KEY
    assert authenticator(region="eu-west-1").authenticate(request).access_key == ACCESS_KEY
    changed = with_authorization("us-east-1", "eu-west-1")
    assert refusal(changed, any_region=True).code == "SignatureDoesNotMatch"


def test_us_is_the_first_region() -> None:
    assert refusal(with_authorization("us-east-1", "us")).code == "SignatureDoesNotMatch"
    for region in ("us", "us-east-1"):
        request = signed_by_header(region=region).request()
        for configured in ("us", "us-east-1"):
            accepted = authenticator(region=configured).authenticate(request)
            assert accepted.access_key == ACCESS_KEY
    assert refusal(with_authorization("us-east-1", "us"), region="eu-west-1").code == (
        "AuthorizationHeaderMalformed"
    )


@pytest.mark.parametrize("plus_s", [-300, 300])
def test_a_clock_may_be_five_minutes_off(plus_s: int) -> None:
    request = signed_by_header().request()
    assert authenticator(plus_s=plus_s).authenticate(request).access_key == ACCESS_KEY


@pytest.mark.parametrize("plus_s", [-301, 301])
def test_a_clock_that_is_further_off_is_refused(plus_s: int) -> None:
    error = refusal(signed_by_header().request(), plus_s=plus_s)
    assert error.code == "RequestTimeTooSkewed"
    assert dict(error.details)["RequestTime"] == AT
    assert dict(error.details)["MaxAllowedSkewMilliseconds"] == "300000"


def test_a_presigned_url_is_good_from_five_minutes_before_until_it_expires() -> None:
    request = presigned(expires_s=1000).request()
    for plus_s in (-300, 0, 1000):
        assert authenticator(plus_s=plus_s).authenticate(request).access_key == ACCESS_KEY
    assert str(refusal(request, plus_s=-301)) == "Request is not yet valid"
    assert str(refusal(request, plus_s=1001)) == "Request has expired"


@pytest.mark.parametrize("date", [None, "", "yesterday", "20130524", "2013-05-24T00:00:00Z"])
def test_a_request_that_says_no_time_is_denied(date: str | None) -> None:
    error = refusal(with_headers(signed_by_header(), x_amz_date=date))
    assert (error.code, str(error)) == (
        "AccessDenied",
        "AWS authentication requires a valid Date or x-amz-date header",
    )


@pytest.mark.parametrize(
    "date", ["Fri, 24 May 2013 00:00:00 GMT", "Fri, 24 May 2013 02:00:00 +0200", AT]
)
def test_the_time_may_stand_in_the_date_header(date: str) -> None:
    request = signed_by_header(date=date).request()
    assert authenticator().authenticate(request).access_key == ACCESS_KEY
    assert refusal(request, plus_s=301).code == "RequestTimeTooSkewed"
    unsigned = with_headers(signed_by_header(), x_amz_date=None, date=date)
    assert dict(refusal(unsigned).details)["HeadersNotSigned"] == "date"


# Who, and what is covered.


def test_an_unknown_key_is_refused() -> None:
    error = refusal(with_authorization(ACCESS_KEY, "AKIANOBODY"))
    assert error.code == "InvalidAccessKeyId"
    assert dict(error.details)["AWSAccessKeyId"] == "AKIANOBODY"


def test_a_wrong_signature_is_refused_with_all_that_explains_it() -> None:
    error = refusal(with_authorization("Signature=", "Signature=x"))
    details = dict(error.details)
    assert error.code == "SignatureDoesNotMatch"
    assert details["AWSAccessKeyId"] == ACCESS_KEY
    assert details["SignatureProvided"].startswith("x")
    assert details["StringToSign"].startswith(f"AWS4-HMAC-SHA256\n{AT}\n{SCOPE}\n")
    assert bytes.fromhex(details["StringToSignBytes"]).decode() == details["StringToSign"]
    assert details["CanonicalRequest"].startswith("GET\n/\n\nhost:localhost:9000\n")
    assert bytes.fromhex(details["CanonicalRequestBytes"]).decode() == details["CanonicalRequest"]


@pytest.mark.parametrize("header", ["x-amz-meta-new", "x-amz-copy-source", "x-amz-acl"])
@pytest.mark.parametrize("signed", [signed_by_header(), presigned()])
def test_a_header_of_amazons_that_is_not_signed_is_refused(header: str, signed: Signed) -> None:
    error = refusal(made_request("GET", signed.target, {**signed.headers, header: "a"}))
    assert error.code == "AccessDenied"
    assert dict(error.details)["HeadersNotSigned"] == header


def test_the_host_must_be_signed() -> None:
    error = refusal(with_authorization("SignedHeaders=host;", "SignedHeaders="))
    assert dict(error.details)["HeadersNotSigned"] == "host"


def test_what_is_said_of_the_body_must_be_signed() -> None:
    error = refusal(with_authorization("x-amz-content-sha256;", ""))
    assert dict(error.details)["HeadersNotSigned"] == "x-amz-content-sha256"


def test_something_must_be_said_of_the_body() -> None:
    error = refusal(with_headers(signed_by_header(), x_amz_content_sha256=None))
    assert error.code == "InvalidRequest"
    assert "x-amz-content-sha256" in str(error)


def test_nonsense_about_the_body_is_refused() -> None:
    error = refusal(signed_by_header(payload="UNSIGNED").request())
    assert error.code == "InvalidArgument"
    assert dict(error.details)["ArgumentValue"] == "UNSIGNED"


@pytest.mark.parametrize("name", ["host", "x-amz-date", "content-type"])
def test_a_signed_header_that_did_not_come_is_refused(name: str) -> None:
    signed = signed_by_header(headers={"content-type": "", "date": AT})
    headers = {key: value for key, value in signed.headers.items() if key != name}
    assert refusal(made_request("GET", "/", headers)).code == "SignatureDoesNotMatch"


def test_signed_headers_in_another_order_are_refused() -> None:
    old = "host;x-amz-content-sha256;x-amz-date"
    new = "x-amz-date;host;x-amz-content-sha256"
    assert refusal(with_authorization(old, new)).code == "SignatureDoesNotMatch"


# What is said of the body.


@pytest.mark.parametrize("kind", list(PayloadKind))
def test_the_kind_of_the_body_is_told(kind: PayloadKind) -> None:
    said = EMPTY_SHA256 if kind is PayloadKind.SIGNED else kind.value
    payload = authenticator().authenticate(signed_by_header(payload=said).request()).payload
    assert payload.kind is kind
    assert bool(payload.seed_signature) == kind.name.startswith("CHUNKS_SIGNED")


@pytest.mark.parametrize("name", [b"X-Amz-Content-Sha256", b"x-amz-content-sha256"])
def test_a_presigned_url_may_say_the_hash_of_the_body(name: bytes) -> None:
    query = [(name, OTHER_SHA256.encode())]
    signed = presigned(query=query, payload=OTHER_SHA256)
    payload = authenticator().authenticate(signed.request()).payload
    assert (payload.kind, payload.sha256) == (PayloadKind.SIGNED, OTHER_SHA256)
    assert refusal(presigned(query=query).request()).code == "SignatureDoesNotMatch"


def test_unsigned_bodies_are_refused_where_they_are_not_allowed() -> None:
    for kind in (PayloadKind.UNSIGNED, PayloadKind.CHUNKS_UNSIGNED_TRAILER):
        signed = signed_by_header("PUT", b"/b/k", payload=kind.value)
        request = made_request("PUT", signed.target, signed.headers, b"data")
        assert authenticator().authenticate(request).payload.kind is kind
        assert refusal(request, allow_unsigned_payload=False).code == "AccessDenied"
    url = presigned("PUT", b"/b/k")
    upload = made_request("PUT", url.target, url.headers, b"data")
    assert refusal(upload, allow_unsigned_payload=False).code == "AccessDenied"


def test_a_request_without_a_body_has_nothing_that_could_be_unsigned() -> None:
    strict = authenticator(allow_unsigned_payload=False)
    assert strict.authenticate(presigned().request()).access_key == ACCESS_KEY
    signed = signed_by_header(payload="UNSIGNED-PAYLOAD")
    assert strict.authenticate(signed.request()).access_key == ACCESS_KEY
