"""Headers of objects, in and out."""

from __future__ import annotations

from email.header import decode_header, make_header

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.s3.errors import S3Error
from lakebed.s3.object_headers import content_of, object_headers, text, wire
from lakebed.seglake.model import Content, ObjectInfo, State

NO_CONTENT = Content()


def info(content: Content = NO_CONTENT, *, state: State = State.ACTIVE) -> ObjectInfo:
    return ObjectInfo(
        bucket="photos",
        key="key",
        version_id="0" * 32,
        is_null=False,
        is_latest=True,
        state=state,
        etag="ab" * 16,
        size=3,
        modified_ms=1_700_000_000_999,
        content=content,
        checksums=(),
        part_sizes=(),
    )


def reported(content: Content) -> dict[str, str]:
    return dict(object_headers(info(content), version_id=None))


def test_what_is_told_of_an_object_without_headers_of_its_own() -> None:
    assert object_headers(info(), version_id="17") == [
        ("ETag", f'"{"ab" * 16}"'),
        ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ("Accept-Ranges", "bytes"),
        ("Content-Type", "binary/octet-stream"),
        ("x-amz-version-id", "17"),
    ]


def test_a_version_that_lost_a_conflict_is_told_as_one() -> None:
    found = object_headers(info(state=State.CONFLICT), version_id=None)
    assert ("x-seglake-conflict", "true") in found
    assert "x-seglake-conflict" not in dict(object_headers(info(), version_id=None))


def test_content_headers_are_kept_and_given_back() -> None:
    sent = {
        "content-type": "text/plain; charset=utf-8",
        "cache-control": "no-cache",
        "content-disposition": 'attachment; filename="a b"',
        "content-encoding": "gzip",
        "content-language": "de",
        "expires": "whenever",
        "x-amz-meta-colour": "blue",
        "x-amz-date": "not kept",
    }
    found = reported(content_of(sent))
    kept = {name: value for name, value in sent.items() if name != "x-amz-date"}
    assert {name.lower(): value for name, value in found.items()}.items() >= kept.items()
    assert "x-amz-date" not in found


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("aws-chunked", None),
        ("aws-chunked,gzip", "gzip"),
        ("gzip, aws-chunked", "gzip"),
        ("gzip, aws-chunked ,br", "gzip,br"),
        (" aws-chunked , aws-chunked", None),
        ("gzip, br", "gzip, br"),
        ("x-aws-chunked", "x-aws-chunked"),
        ("", None),
    ],
)
def test_the_framing_of_a_body_is_not_its_encoding(sent: str, kept: str | None) -> None:
    assert content_of({"content-encoding": sent}).content_encoding == kept


def test_metadata_up_to_two_kibibytes_are_kept() -> None:
    full = {"x-amz-meta-ab": "c" * 2046}
    assert content_of(full).metadata == {"ab": "c" * 2046}
    with pytest.raises(S3Error) as refused:
        content_of({**full, "x-amz-meta-d": ""})
    assert refused.value.code == "MetadataTooLarge"
    with pytest.raises(S3Error):
        content_of({"x-amz-meta-ab": "ä".encode().decode("latin-1") * 1024})


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("ä".encode().decode("latin-1"), "ä"),  # UTF-8, as most clients send it
        ("ä", "ä"),  # latin-1
        ("=?UTF-8?B?w6Q=?=", "ä"),
        ("=?utf-8?q?=C3=A4?=", "ä"),
        ("=?iso-8859-1?Q?=E4?=", "ä"),
        ("=?UTF-8?B?!!!?=", "=?UTF-8?B?!!!?="),
        ("=?no-such-charset?B?w6Q=?=", "=?no-such-charset?B?w6Q=?="),
        ("=?UTF-8?B?/w==?=", "=?UTF-8?B?/w==?="),
        ("a=?b", "a=?b"),
        ("=?UTF-8?B?w6Q=?= b =?UTF-8?B?w6Q=?=", "ä b ä"),
        ("=?UTF-8?B?w6Q=?= \t=?UTF-8?Q?b_c?=", "äb c"),
        ("=?UTF-8?B?PT9VVEYtOD9CP3c2UT0/PQ==?=", "=?UTF-8?B?w6Q=?="),
    ],
)
def test_metadata_are_text(sent: str, meant: str) -> None:
    content = content_of({"x-amz-meta-a": sent})
    assert content.metadata == {"a": meant}
    back = reported(content)["x-amz-meta-a"]
    assert back.isascii()
    assert content_of({"x-amz-meta-a": back}).metadata == content.metadata


def test_a_file_name_in_utf_8_comes_back_byte_by_byte() -> None:
    sent = 'attachment; filename="ä€.txt"'.encode().decode("latin-1")
    content = content_of({"content-disposition": sent})
    assert content.content_disposition == 'attachment; filename="ä€.txt"'
    assert reported(content)["Content-Disposition"] == sent


@pytest.mark.parametrize("hostile", ["a\x00b", "a\x1bb", "a\x7fb", "a\rb", "a\nb"])
@pytest.mark.parametrize("name", ["content-type", "cache-control", "expires"])
def test_control_characters_are_not_taken_in(name: str, hostile: str) -> None:
    with pytest.raises(S3Error) as refused:
        content_of({name: hostile})
    assert refused.value.code == "InvalidArgument"


ANY_TEXT = st.text(max_size=50)
LATIN = st.text(st.characters(max_codepoint=0xFF), max_size=50)


@given(ANY_TEXT, ANY_TEXT, st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=5))
@example("a\r\nSet-Cookie: b", "\ud800", {"a\r\nb": "c", "d": "\r\ne"})
def test_whatever_is_stored_no_header_has_more_than_one_line(
    content_type: str, expires: str, metadata: dict[str, str]
) -> None:
    content = Content(content_type=content_type, expires=expires, metadata=metadata)
    for name, value in object_headers(info(content), version_id=None):
        line = f"{name}: {value}".encode("latin-1")
        assert not any(byte < 0x20 and byte != 0x09 for byte in line)
        assert name.isascii()


@given(LATIN)
def test_metadata_that_were_taken_come_back_the_same(sent: str) -> None:
    content = content_of({"x-amz-meta-a": sent})
    back = reported(content)["x-amz-meta-a"]
    assert content_of({"x-amz-meta-a": back}).metadata == content.metadata
    if "=?" in back and "=?" not in sent:
        assert str(make_header(decode_header(back))) == content.metadata["a"]


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_text_goes_over_the_wire_and_back(value: str) -> None:
    assert text(wire(value)) == value


def test_names_that_no_header_can_have_are_counted() -> None:
    found = reported(Content(metadata={"fine": "1", "not fine": "2", "": "3"}))
    assert found["x-amz-meta-fine"] == "1"
    assert found["x-amz-missing-meta"] == "2"
