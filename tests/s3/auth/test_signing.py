"""Any request that was signed is accepted, and no longer once a byte of it is another one."""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lakebed.s3.auth.sigv4 import SigningKeys, decoded, query_pairs, signing_key
from lakebed.s3.errors import STATUSES, S3Error
from tests.s3.auth.reference_signer import (
    SCHEME,
    SCOPE,
    Signed,
    encoded,
    presigned,
    sign,
    signature,
    signed_by_header,
)
from tests.s3.auth.signed_requests import (
    ACCESS_KEY,
    AT,
    EMPTY_SHA256,
    SECRET,
    authenticator,
    made_request,
)

pytestmark = pytest.mark.thorough

PATHS = st.binary(max_size=40).map(lambda name: b"/" + name)
QUERIES = st.lists(
    st.tuples(st.binary(min_size=1, max_size=8), st.binary(max_size=12)), max_size=4
).filter(lambda pairs: not any(b"X-Amz" in name or b"Sig" in name for name, _ in pairs))
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20).map(str.strip)
HEADERS = st.dictionaries(
    st.from_regex(r"x-amz-meta-[a-z0-9]{1,6}|content-type|range", fullmatch=True),
    VALUES,
    max_size=4,
)
METHODS = st.sampled_from(["GET", "PUT", "HEAD", "DELETE", "POST"])
SIGNED = st.builds(signed_by_header, METHODS, PATHS, QUERIES, HEADERS) | st.builds(
    presigned, METHODS, PATHS, QUERIES, HEADERS
)


def is_accepted(signed: Signed) -> bool:
    try:
        found = authenticator().authenticate(signed.request())
    except S3Error as error:
        assert error.code in STATUSES
        return False
    assert found.access_key == ACCESS_KEY
    return True


@settings(deadline=None)
@given(SIGNED)
def test_what_was_signed_is_accepted(signed: Signed) -> None:
    assert is_accepted(signed)


@settings(deadline=None)
@given(SIGNED, st.data())
def test_a_byte_of_the_path_or_the_query_that_is_changed_is_noticed(
    signed: Signed, data: st.DataObject
) -> None:
    place = data.draw(st.integers(1, len(signed.target) - 1)) if len(signed.target) > 1 else 0
    assume(place)
    byte = data.draw(st.integers(0x21, 0xFF))
    target = signed.target[:place] + bytes([byte]) + signed.target[place + 1 :]
    assume(meaning(target) != meaning(signed.target))
    assert not is_accepted(signed._replace(target=target))


def meaning(target: bytes) -> object:
    """What is asked for: the name of the path, and the pairs of the query in any order."""
    path, _, query = target.partition(b"?")
    pairs = [(decoded(name), decoded(value)) for name, value in query_pairs(query)]
    return unquote_to_bytes(path), sorted(pair for pair in pairs if any(pair))


@settings(deadline=None)
@given(SIGNED, st.data())
def test_a_byte_of_a_signed_header_that_is_changed_is_noticed(
    signed: Signed, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(signed.headers)))
    value = signed.headers[name]
    assume(value)
    place = data.draw(st.integers(0, len(value) - 1))
    changed = value[:place] + chr(data.draw(st.integers(0, 0xFF))) + value[place + 1 :]
    assume(" ".join(changed.split()) != " ".join(value.split()))
    # White space stands between the parts of it, as much as anyone likes.
    assume(name != "authorization" or changed.replace(" ", "") != value.replace(" ", ""))
    assert not is_accepted(signed._replace(headers={**signed.headers, name: changed}))


@settings(deadline=None)
@given(SIGNED, METHODS)
def test_another_method_is_noticed(signed: Signed, method: str) -> None:
    assume(method != signed.method)
    assert not is_accepted(signed._replace(method=method))


@settings(deadline=None)
@given(
    st.binary(max_size=60),
    st.dictionaries(
        st.sampled_from(
            ["authorization", "host", "x-amz-date", "date", "x-amz-content-sha256", "x-amz-a", "é"]
        ),
        st.text(st.characters(max_codepoint=0xFF), max_size=40)
        | st.sampled_from([*signed_by_header().headers.values(), "AWS4-HMAC-SHA256 ", AT, "é" * 9]),
    ),
)
def test_whatever_comes_is_accepted_or_refused_and_nothing_else(
    target: bytes, headers: dict[str, str]
) -> None:
    is_accepted(Signed("GET", b"/" + target, headers))


@settings(deadline=None)
@given(st.data())
def test_a_query_of_any_parts_is_accepted_or_refused_and_nothing_else(data: st.DataObject) -> None:
    pairs = presigned().target.partition(b"?")[2].split(b"&")
    names = [pair.partition(b"=")[0] for pair in pairs]
    junk = st.builds(
        lambda name, value: name + b"=" + value, st.sampled_from(names), st.binary(max_size=20)
    )
    chosen = data.draw(st.lists(st.sampled_from(pairs) | junk, max_size=8))
    is_accepted(presigned()._replace(target=b"/?" + b"&".join(chosen)))


# What clients sign differently.


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        (b"/b/a b", b"/b/a b"),
        (b"/b/a'(b)*!", b"/b/a'(b)*!"),
        (b"/b/a+b", b"/b/a+b"),
        (b"/b/~x", b"/b/%7Ex"),
        (b"/b/a/b", b"/b/a%2Fb"),
        (b"/b/a/b", b"/b/a%2fb"),
        ("/b/ü".encode(), "/b/ü".encode()),
        ("/b/ü".encode(), b"/b/%c3%bc"),
        (b"/b//../x", b"/b//../x"),
    ],
)
def test_a_path_may_be_sent_in_another_form_than_it_was_signed_in(path: bytes, sent: bytes) -> None:
    assert is_accepted(signed_by_header(path=path)._replace(target=sent))


@pytest.mark.parametrize("path", [b"/b/a%2Fb'c", "/b/ü+ %C3".encode(), b"/b/%7e%2f", b""])
def test_a_path_may_be_signed_as_it_was_sent(path: bytes) -> None:
    headers = {"host": "localhost", "x-amz-date": AT, "x-amz-content-sha256": EMPTY_SHA256}
    found = raw_signature(path or b"/", headers)
    signed = signed_by_header(headers={"host": "localhost"})
    assert is_accepted(resigned(signed, found)._replace(target=path))


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ([(b"prefix", b"a b")], b"prefix=a+b"),
        ([(b"prefix", b"a b")], b"prefix=a%20b"),
        ([(b"prefix", b"a/b")], b"prefix=a/b"),
        ([(b"prefix", b"*~")], b"prefix=*%7e"),
        ([(b"uploads", b"")], b"uploads"),
        ([(b"a", b"1"), (b"b", b"2")], b"b=2&a=1"),
        ([(b"a", b"1"), (b"b", b"2")], b"&b=2&&a=1&"),
        ([(b"a", b"="), (b"a", b"2")], b"a=2&a=="),
    ],
)
def test_a_query_may_be_sent_in_another_form_than_it_was_signed_in(
    query: list[tuple[bytes, bytes]], sent: bytes
) -> None:
    signed = signed_by_header(query=query)
    assert is_accepted(signed._replace(target=b"/?" + sent))


@pytest.mark.parametrize("added", [b"&=a", b"&a", b"&a=", b"&%20="])
def test_nothing_can_be_added_to_a_query(added: bytes) -> None:
    signed = signed_by_header(query=[(b"b", b"2")])
    assert not is_accepted(signed._replace(target=signed.target + added))
    url = presigned()
    assert not is_accepted(url._replace(target=url.target + added))


def test_the_name_of_a_parameter_may_be_sent_with_escapes() -> None:
    url = presigned()
    for name in (b"X-Amz-Signature", b"X-Amz-Date", b"X-Amz-Credential"):
        other = url.target.replace(name, name.replace(b"-", b"%2d"))
        assert is_accepted(url._replace(target=other))


def test_a_plus_that_was_signed_as_a_plus_cannot_be_sent_as_a_space() -> None:
    signed = signed_by_header(query=[(b"prefix", b"a+b")])
    assert is_accepted(signed)
    assert not is_accepted(signed._replace(target=b"/?prefix=a+b"))


def test_white_space_in_a_header_may_be_signed_as_it_is() -> None:
    headers = {
        "host": "localhost",
        "x-amz-content-sha256": EMPTY_SHA256,
        "x-amz-date": AT,
        "x-amz-meta-a": "a  b",
    }
    found = raw_signature(b"/", headers)
    signed = signed_by_header(headers={"host": "localhost", "x-amz-meta-a": " a  b "})
    assert is_accepted(signed)
    as_it_is = resigned(signed, found)
    assert is_accepted(as_it_is)
    other = {**as_it_is.headers, "x-amz-meta-a": "a   b"}
    assert not is_accepted(as_it_is._replace(headers=other))


def test_a_header_that_comes_repeatedly_is_signed_as_one() -> None:
    signed = signed_by_header(headers={"x-amz-meta-a": "1,é"})
    pairs = [(name, value) for name, value in signed.headers.items() if name != "x-amz-meta-a"]
    pairs += [("x-amz-meta-a", "1"), ("X-Amz-Meta-A", " é ")]
    request = made_request("GET", "/", pairs)
    assert authenticator().authenticate(request).access_key == ACCESS_KEY


def raw_signature(path: bytes, headers: dict[str, str]) -> str:
    """Of a request whose path and headers are signed just as they are."""
    names = sorted(headers)
    lines = ["GET", path.decode("latin-1"), "", *(f"{name}:{headers[name]}" for name in names)]
    lines += ["", ";".join(names), EMPTY_SHA256]
    digest = sha256("\n".join(lines).encode("latin-1")).hexdigest()
    return sign(f"{SCHEME}\n{AT}\n{SCOPE}\n{digest}")


def resigned(signed: Signed, found: str) -> Signed:
    start, equals, _ = signed.headers["authorization"].rpartition("=")
    return signed._replace(headers={**signed.headers, "authorization": start + equals + found})


def test_signing_keys_are_made_once_and_the_oldest_forgotten() -> None:
    keys = SigningKeys(count_max=2)
    first = keys.key(SECRET, date="20130524", region="us-east-1")
    assert first == signing_key(SECRET, date="20130524", region="us-east-1")
    assert keys.key(SECRET, date="20130524", region="us-east-1") is first
    keys.key(SECRET, date="20130525", region="us-east-1")
    keys.key(SECRET, date="20130524", region="eu-west-1")
    again = keys.key(SECRET, date="20130524", region="us-east-1")
    assert again == first
    assert again is not first


def test_the_reference_encodes_as_documented() -> None:
    assert encoded("a/é ~".encode(), safe=b"/") == b"a/%C3%A9%20~"
    assert len(signature("GET", b"/", [], {"host": "a"}, EMPTY_SHA256)) == 64
