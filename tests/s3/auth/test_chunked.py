"""Bodies in chunks: whatever was framed and signed comes out; nothing else does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.s3.auth.chunked import (
    CHUNK_BYTES_MIN,
    HEADER_BYTES_MAX,
    TRAILER_BYTES_MAX,
    ChunkedDecoder,
)
from lakebed.s3.auth.identity import PayloadKind
from lakebed.s3.errors import STATUSES, S3Error
from tests.s3.auth.reference_signer import chunked_body, chunked_payload

pytestmark = pytest.mark.thorough

PLAIN, SIGNED = PayloadKind.CHUNKS_UNSIGNED, PayloadKind.CHUNKS_SIGNED
PLAIN_TRAILER = PayloadKind.CHUNKS_UNSIGNED_TRAILER
SIGNED_TRAILER = PayloadKind.CHUNKS_SIGNED_TRAILER
KINDS = [PLAIN, SIGNED, PLAIN_TRAILER, SIGNED_TRAILER]
CRC = {"x-amz-checksum-crc32": "AAAAAA=="}
BIG = bytes(range(256)) * 36  # a chunk of a size that is allowed anywhere


def trailers_of(kind: PayloadKind) -> Mapping[str, str]:
    return CRC if kind in (PLAIN_TRAILER, SIGNED_TRAILER) else {}


def decode(
    kind: PayloadKind,
    pieces: Sequence[bytes],
    *,
    length: int | None,
    names: Sequence[str] | None = None,
) -> tuple[bytes, Mapping[str, str]]:
    """The bytes and the trailers, if nothing is refused."""
    decoder = ChunkedDecoder(
        chunked_payload(kind),
        decoded_length=length,
        trailer_names=tuple(trailers_of(kind)) if names is None else names,
    )
    data = b"".join(bytes(view) for piece in pieces for view in decoder.feed(piece))
    return data, decoder.finish()


def refused(kind: PayloadKind, *pieces: bytes, length: int | None = None, **named: object) -> str:
    with pytest.raises(S3Error) as error:
        decode(kind, pieces, length=length, **named)  # type: ignore[arg-type]
    assert error.value.code in STATUSES
    return error.value.code


CHUNKS = st.lists(st.binary(min_size=1, max_size=20), max_size=4)


@settings(deadline=None)
@given(st.sampled_from(KINDS), CHUNKS, st.data())
def test_a_body_comes_out_whole_however_it_is_cut(
    kind: PayloadKind, small: list[bytes], data: st.DataObject
) -> None:
    is_signed = kind in (SIGNED, SIGNED_TRAILER)
    chunks = [*(BIG + one for one in small[1:]), *small[:1]] if is_signed else small
    body = chunked_body(kind, chunks, trailers_of(kind))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=20)))
    pieces = [body[start:end] for start, end in pairwise([0, *cuts, len(body)])]
    whole = b"".join(chunks)
    found = decode(kind, pieces, length=data.draw(st.sampled_from([None, len(whole)])))
    assert found == (whole, trailers_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_comes_out_whole_byte_by_byte(kind: PayloadKind) -> None:
    body = chunked_body(kind, [BIG, b"end"], trailers_of(kind))
    pieces = [body[place : place + 1] for place in range(len(body))]
    assert decode(kind, pieces, length=len(BIG) + 3) == (BIG + b"end", trailers_of(kind))


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([SIGNED, SIGNED_TRAILER]), st.data())
def test_no_damage_to_a_signed_body_lets_other_bytes_through(
    kind: PayloadKind, data: st.DataObject
) -> None:
    body = chunked_body(kind, [BIG, b"end"], trailers_of(kind))
    place = data.draw(st.integers(0, len(body) - 1))
    removed = data.draw(st.integers(0, 3))
    added = data.draw(st.binary(max_size=3))
    damaged = body[:place] + added + body[place + removed :]
    try:
        found = decode(kind, [damaged], length=None)
    except S3Error as error:
        assert error.code in STATUSES
        return
    assert found == (BIG + b"end", trailers_of(kind))


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([PLAIN, PLAIN_TRAILER]), st.data())
def test_damage_to_the_framing_of_an_unsigned_body_is_noticed(
    kind: PayloadKind, data: st.DataObject
) -> None:
    """Its data is not signed, but for a checksum that is not looked at here."""
    body = chunked_body(kind, [BIG, b"end"], trailers_of(kind))
    place = data.draw(st.integers(0, len(body) - 1))
    damaged = body[:place] + data.draw(st.binary(max_size=3)) + body[place + 1 :]
    try:
        found, _ = decode(kind, [damaged], length=len(BIG) + 3)
    except S3Error as error:
        assert error.code in STATUSES
        return
    assert len(found) == len(BIG) + 3


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(KINDS),
    st.lists(
        st.binary(max_size=30)
        | st.sampled_from([b"0\r\n", b"\r\n", b"3\r\nabc\r\n", b";chunk-signature=" + b"0" * 64]),
        max_size=8,
    ),
)
def test_whatever_comes_is_decoded_or_refused_and_nothing_else(
    kind: PayloadKind, pieces: list[bytes]
) -> None:
    decoder = ChunkedDecoder(chunked_payload(kind), decoded_length=None)
    for piece in [*pieces, b"x"]:
        try:
            decoder.feed(piece)
        except S3Error as error:
            assert error.code in STATUSES
    with pytest.raises(S3Error):  # for it ends in nonsense
        decoder.finish()


def test_after_a_refusal_nothing_is_accepted_any_more() -> None:
    decoder = ChunkedDecoder(chunked_payload(SIGNED), decoded_length=None)
    body = chunked_body(SIGNED, [BIG])
    place = body.index(b"\r\n") + 10
    with pytest.raises(S3Error):
        decoder.feed(body[:place] + b"x" + body[place + 1 :])
    with pytest.raises(S3Error):
        decoder.feed(body)
    with pytest.raises(S3Error):
        decoder.finish()


def test_what_is_right_by_itself_is_not_accepted_behind_nonsense() -> None:
    decoder = ChunkedDecoder(chunked_payload(PLAIN), decoded_length=None)
    with pytest.raises(S3Error):
        decoder.feed(b"nonsense\r\n")
    for attempt in (lambda: decoder.feed(b"1\r\na\r\n0\r\n\r\n"), decoder.finish):
        with pytest.raises(S3Error):
            attempt()


@pytest.mark.parametrize("end", [b"bb", b"\rb", b"b\n", b"\n\r"])
def test_data_that_is_longer_than_its_header_says_is_refused(end: bytes) -> None:
    assert refused(PLAIN, b"1\r\na" + end + b"0\r\n\r\n") == "InvalidRequest"
    assert refused(PLAIN, b"1\r\na" + end[:1], end[1:] + b"0\r\n\r\n") == "InvalidRequest"


def test_more_than_was_announced_is_refused_before_it_comes() -> None:
    decoder = ChunkedDecoder(chunked_payload(PLAIN), decoded_length=10)
    with pytest.raises(S3Error, match="more bytes"):
        decoder.feed(b"b\r\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_ends_early_is_incomplete(kind: PayloadKind) -> None:
    body = chunked_body(kind, [BIG, b"end"], trailers_of(kind))
    last = body.rindex(b"\r\n0") + 2
    for end in (0, 1, 40, 5000, last - 1, last, last + 2):
        assert refused(kind, body[:end]) == "IncompleteBody"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [0, len(BIG) - 1, len(BIG) + 1])
def test_a_body_of_another_length_is_refused(kind: PayloadKind, length: int) -> None:
    body = chunked_body(kind, [BIG], trailers_of(kind))
    assert refused(kind, body, length=length) == "IncompleteBody"


def test_chunks_cannot_change_places() -> None:
    first, second = BIG, BIG[::-1]
    body = chunked_body(SIGNED, [first, second])
    pieces = body.split(b"\r\n", 4)
    turned = b"\r\n".join([*pieces[2:4], *pieces[0:2], pieces[4]])
    assert len(turned) == len(body)
    assert refused(SIGNED, turned) == "SignatureDoesNotMatch"


def test_a_body_cannot_be_cut_behind_a_chunk() -> None:
    body = chunked_body(SIGNED, [BIG, BIG])
    short = chunked_body(SIGNED, [BIG])
    last = body[body.rindex(b"0;chunk") :]
    assert refused(SIGNED, short[: short.rindex(b"0;chunk")] + last) == "SignatureDoesNotMatch"


def test_a_small_signed_chunk_must_be_the_last_with_data() -> None:
    least = bytes(CHUNK_BYTES_MIN)
    body = chunked_body(SIGNED, [least, b"end"])
    assert decode(SIGNED, [body], length=None) == (least + b"end", {})
    assert refused(SIGNED, chunked_body(SIGNED, [least[1:], b"end"])) == "InvalidChunkSizeError"
    unsigned = chunked_body(PLAIN, [b"a", b"b"])
    assert decode(PLAIN, [unsigned], length=2) == (b"ab", {})


@pytest.mark.parametrize(
    "header",
    [
        b"\r\n",
        b"g\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b" 1\r\n",
        b"0x1\r\n",
        b"1 \r\n",
        b"1\n",
        b"1;chunk-signature=" + b"0" * 64 + b"\r\n",
        b"1;a=b\r\n",
        b"1" * 16 + b"\r\n",
        b"1" * HEADER_BYTES_MAX,
        b"1" * 100_000,
        "\u0661\r\n".encode(),  # a digit, but none of ours
    ],
)
def test_a_header_that_is_not_well_formed_is_refused(header: bytes) -> None:
    assert refused(PLAIN, header + b"a\r\n0\r\n\r\n" + b" " * HEADER_BYTES_MAX) == "InvalidRequest"
    pieces = [header[place : place + 1] for place in range(len(header[:1000]))]
    assert refused(PLAIN, *pieces, b"a\r\n0\r\n\r\n", b" " * HEADER_BYTES_MAX) == "InvalidRequest"


def test_a_signed_chunk_needs_its_signature() -> None:
    assert refused(SIGNED, chunked_body(PLAIN, [BIG])) == "InvalidRequest"
    upper = chunked_body(SIGNED, [BIG]).replace(b"chunk-signature=", b"chunk-signature=A", 1)
    assert refused(SIGNED, upper) == "InvalidRequest"


# Trailers.


@pytest.mark.parametrize(
    "ending",
    [
        b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n",
        b"x-amz-checksum-crc32:AAAAAA==\n\r\n\r\n",  # minio-go
        b"x-amz-checksum-crc32:AAAAAA==\n",
        b"x-amz-checksum-crc32: AAAAAA== \r\n\r\n",
        b"X-Amz-Checksum-CRC32:AAAAAA==\r\n\r\n",
        b"\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
        b"x-amz-checksum-crc32:AAAAAA==",
    ],
)
def test_trailers_come_in_the_forms_that_clients_send(ending: bytes) -> None:
    names = ["X-Amz-Checksum-Crc32 "]
    assert decode(PLAIN_TRAILER, [b"0\r\n" + ending], length=0, names=names) == (b"", CRC)


def test_signed_trailers_come_in_the_forms_that_clients_send() -> None:
    body = chunked_body(SIGNED_TRAILER, [BIG], CRC)
    for other in (b"==\n\r\nx-amz-trailer", b"== \r\nX-Amz-Trailer"):
        changed = body.replace(b"==\r\nx-amz-trailer", other)
        assert changed != body
        assert decode(SIGNED_TRAILER, [changed], length=None) == (BIG, CRC)


@pytest.mark.parametrize(
    "ending",
    [
        b"\r\n",
        b"x-amz-checksum-crc32c:AAAAAA==\r\n\r\n",
        b"x-amz-checksum-crc32:AAAAAA==\r\nx-amz-meta-a:b\r\n\r\n",
        b"x-amz-checksum-crc32:AAAAAA==\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
        b"x-amz-checksum-crc32:AAAAAA==\r\nx-amz-trailer-signature:00\r\n\r\n",
        b"x-amz-checksum-crc32\r\n\r\n",
        b":AAAAAA==\r\n\r\n",
        b"x-amz-checksum-crc32:AAA\0AAA==\r\n\r\n",
        b"x-amz-checksum-crc32:\xc3\xbc\r\n\r\n",
        b"x-amz-checksum-crc32 :AAAAAA==\r\n\r\n",
        b"x-amz-checksum-crc32:" + b"A" * TRAILER_BYTES_MAX,
        b"\r\n" * TRAILER_BYTES_MAX,
    ],
)
def test_other_trailers_than_were_announced_are_refused(ending: bytes) -> None:
    names = list(CRC)
    assert refused(PLAIN_TRAILER, b"0\r\n" + ending, names=names) == "MalformedTrailerError"


def test_a_body_without_trailers_has_none() -> None:
    assert refused(PLAIN, b"0\r\na:b\r\n\r\n") == "MalformedTrailerError"
    assert refused(SIGNED, chunked_body(SIGNED, []) + b"a:b\r\n") == "MalformedTrailerError"
    with pytest.raises(S3Error, match="Trailers were announced"):
        ChunkedDecoder(chunked_payload(PLAIN), decoded_length=0, trailer_names=["a"])


def test_the_signature_of_the_trailers_must_be_there_be_right_and_be_last() -> None:
    body = chunked_body(SIGNED_TRAILER, [BIG], CRC)
    start = body.index(b"x-amz-checksum")
    lines = body[start:].splitlines(keepends=True)
    for changed in (
        [lines[0]],
        [lines[1], lines[0]],
        [b"x-amz-checksum-crc32:BAAAAA==\r\n", lines[1]],
    ):
        code = refused(SIGNED_TRAILER, body[:start] + b"".join(changed))
        assert code in ("SignatureDoesNotMatch", "MalformedTrailerError")
