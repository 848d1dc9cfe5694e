"""What comes with a call: its query, numbers in its path, its body's kind, what is accepted."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Struct

from lakebed.api import media
from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.problems import Refused
from lakebed.api.topics import Count
from lakebed.base.errors import TooLarge
from lakebed.http.body import WholeBody
from lakebed.http.request import Request
from lakebed.http_api.call import Call, UnsupportedMedia, read_query


class Query(Struct, frozen=True):
    text: str = "none"
    count: Count = 1
    is_so: bool = False
    other: int | None = None


class Document(Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "unsaid"


def call_of(
    body: bytes = b"", *, also_takes: tuple[Raw, ...] = (), limit: int = 100, **headers: str
) -> Call:
    operation = Operation(
        "test", "POST", "/{number}", "A test", Nothing,
        body=Document, also_takes=also_takes, body_bytes_max=limit,
    )  # fmt: skip
    request = Request(
        method="POST", raw_path=b"/1", raw_query=b"", version="1.1", fields=(),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        body=WholeBody(body), request_id="1", peer="", is_secure=False, received_ns=0,
    )  # fmt: skip
    return Call(operation, {"number": "12"}, request)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"", Query()),
        (b"text=", Query(text="")),
        (b"text=a%20b+c%2B%C3%A9&count=3", Query(text="a b c+é", count=3)),
        (b"is_so=true&other=-1", Query(is_so=True, other=-1)),
        (b"is_so=0", Query(is_so=False)),
    ],
)
def test_a_query_is_read(raw: bytes, found: Query) -> None:
    assert read_query(Query, raw) == found


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"unknown=1", "the known ones are: text, count, is_so, other"),
        (b"text=1&text=2", "'text' is given twice"),
        (b"count=-1", "count"),
        (b"count=x", "count"),
        (b"is_so=perhaps", "is_so"),
        (b"text=%ff", "is malformed"),
        (b"text=\xff", "is malformed"),
        (b"text", "is malformed"),
    ],
)
def test_a_query_that_says_what_it_must_not_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(Refused, match=why):
        read_query(Query, raw)


def test_a_call_without_a_query_takes_none() -> None:
    assert read_query(Nothing, b"") == Nothing()
    with pytest.raises(Refused, match="the known ones are: none"):
        read_query(Nothing, b"a=1")


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", "x", " 1", "\N{ARABIC-INDIC DIGIT ONE}", "1" * 21]
)
def test_a_number_in_the_path_is_digits(text: str) -> None:
    call = call_of()
    assert call.number("number") == 12
    call.names = {"number": text}
    with pytest.raises(Refused):
        call.number("number")


def test_a_document_is_read_in_either_kind_and_an_empty_one_says_nothing() -> None:
    for kind in (media.JSON, media.MSGPACK):
        body = media.encode(Document("a"), kind)
        call = call_of(body, content_type=f" {kind.upper()} ; charset=utf-8")
        assert asyncio.run(call.document(Document)) == Document("a")
    assert asyncio.run(call_of().document(Document)) == Document()
    assert asyncio.run(call_of(b'{"name":"b"}').document(Document)) == Document("b")


def test_a_document_of_another_kind_is_refused_with_those_that_are_taken() -> None:
    call = call_of(b"a", also_takes=(Raw.LINES,), content_type="text/html")
    with pytest.raises(UnsupportedMedia, match="json, application/msgpack, application/x-ndjson"):
        asyncio.run(call.document(Document))


def test_text_is_taken_as_bytes_where_bytes_are() -> None:
    takes = (Raw.BYTES, Raw.LINES)
    assert call_of(also_takes=takes, content_type="text/plain; charset=utf-8").raw is Raw.BYTES
    assert call_of(also_takes=takes, content_type="application/x-ndjson").raw is Raw.LINES
    assert call_of(also_takes=takes, content_type="application/json").raw is None
    assert call_of(content_type="application/octet-stream").raw is None


def test_a_body_has_its_limit() -> None:
    assert asyncio.run(call_of(b"x" * 100).read()) == b"x" * 100
    with pytest.raises(TooLarge):
        asyncio.run(call_of(b"x" * 101).read())


def test_what_is_accepted_is_told_in_any_case() -> None:
    call = call_of(accept="text/html, Application/MsgPack;q=0.9")
    assert call.accepts(media.MSGPACK)
    assert not call.accepts(media.LINES)
    assert not call_of().accepts(media.MSGPACK)
