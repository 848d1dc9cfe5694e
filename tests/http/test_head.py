"""Heads: what is understood, and everything that is refused so that nobody reads them otherwise."""

from __future__ import annotations

import pytest

from lakebed.http.head import Head, HeadReader, check_begin
from lakebed.http.limits import Limits
from lakebed.http.refusal import Refused

LIMITS = Limits()


def read(*lines: str | bytes) -> Head:
    encoded = [line.encode("latin-1") if isinstance(line, str) else line for line in lines]
    return HeadReader(LIMITS).read(b"\r\n".join([*encoded, b"", b""]))


def read_with(*headers: str | bytes) -> Head:
    return read("PUT /a HTTP/1.1", "Host: here", *headers)


def test_a_head_is_told_apart() -> None:
    head = read("GET /a%2Fb/../c+d?x=%20&y HTTP/1.1", "Host: here", "X-One: 1", "x-two:  2 \t")
    assert (head.method, head.version, head.length) == ("GET", "1.1", 0)
    assert (head.raw_path, head.raw_query) == (b"/a%2Fb/../c+d", b"x=%20&y")
    assert head.headers == {"host": "here", "x-one": "1", "x-two": "2"}
    assert head.fields[:2] == [(b"Host", b"here"), (b"X-One", b"1")]
    assert head.keeps_alive
    assert not head.expects_continue


def test_of_the_query_only_the_first_question_mark_is_dropped() -> None:
    head = read("GET /a?b?c=d? HTTP/1.1", "Host: here")
    assert (head.raw_path, head.raw_query) == (b"/a", b"b?c=d?")


def test_repeated_names_are_joined_by_a_comma() -> None:
    head = read_with("A: 1", "a: 2", "A:", "B: x")
    assert head.headers == {"host": "here", "a": "1,2,", "b": "x"}
    assert head.fields[1:] == [(b"A", b"1"), (b"a", b"2"), (b"A", b""), (b"B", b"x")]


def test_values_are_latin_1() -> None:
    assert read_with(b"X-Name: caf\xc3\xa9").headers["x-name"].encode("latin-1") == b"caf\xc3\xa9"


def test_names_a_client_invents_are_not_kept_without_end() -> None:
    reader = HeadReader(LIMITS)
    for number in range(5000):
        name = f"x-{number}"
        head = reader.read(f"GET / HTTP/1.1\r\nHost: a\r\n{name}: 1\r\n\r\n".encode())
        assert head.headers[name] == "1"
    assert len(reader._names) <= 4096


@pytest.mark.parametrize(
    ("version", "connection", "keeps_alive"),
    [
        ("1.1", None, True),
        ("1.1", "close", False),
        ("1.1", "Keep-Alive , CLOSE", False),
        ("1.1", "closed", True),
        ("1.0", None, False),
        ("1.0", "Keep-Alive", True),
        ("1.0", "keep-alive, close", False),
    ],
)
def test_either_side_may_end_the_connection(
    version: str, connection: str | None, keeps_alive: bool
) -> None:
    headers = [] if connection is None else [f"Connection: {connection}"]
    assert read(f"GET / HTTP/{version}", "Host: here", *headers).keeps_alive is keeps_alive


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ([], 0),
        (["Content-Length: 0"], 0),
        (["content-length: 0012"], 12),
        (["Content-Length: 5 "], 5),
        (["Transfer-Encoding: chunked"], None),
        (["transfer-encoding: CHUNKED"], None),
    ],
)
def test_the_length_of_the_body_is_known(headers: list[str], length: int | None) -> None:
    assert read_with(*headers).length == length


SMUGGLING: dict[str, tuple[int, list[str | bytes]]] = {
    "CL.TE": (400, ["Content-Length: 6", "Transfer-Encoding: chunked"]),
    "TE.CL": (400, ["Transfer-Encoding: chunked", "Content-Length: 6"]),
    "CL.CL": (400, ["Content-Length: 6", "Content-Length: 7"]),
    "CL.CL alike": (400, ["Content-Length: 6", "Content-Length: 6"]),
    "CL list": (400, ["Content-Length: 6, 6"]),
    "CL signed": (400, ["Content-Length: +6"]),
    "CL negative": (400, ["Content-Length: -6"]),
    "CL hexadecimal": (400, ["Content-Length: 0x6"]),
    "CL with a space": (400, ["Content-Length: 6 6"]),
    "CL underscore": (400, ["Content-Length: 1_0"]),
    "CL empty": (400, ["Content-Length:"]),
    "CL huge": (400, ["Content-Length: 99999999999999999999"]),
    "CL of 19 digits": (400, ["Content-Length: 1000000000000000000"]),
    "CL of other digits": (400, [b"Content-Length: \xb2"]),
    "TE.TE": (400, ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"]),
    "TE twice": (400, ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"]),
    "TE other": (400, ["Transfer-Encoding: identity"]),
    "TE before": (501, ["Transfer-Encoding: gzip, chunked"]),
    "TE behind": (400, ["Transfer-Encoding: chunked, identity"]),
    "TE alike": (400, ["Transfer-Encoding: xchunked"]),
    "TE quoted": (400, ['Transfer-Encoding: "chunked"']),
    "TE vertical tab": (400, ["Transfer-Encoding: \x0bchunked"]),
    "TE folded": (400, ["Transfer-Encoding:\r\n chunked"]),
    "TE space before colon": (400, ["Transfer-Encoding : chunked"]),
    "TE tab before colon": (400, ["Transfer-Encoding\t: chunked"]),
    "folded": (400, ["X: a\r\n b"]),
    "folded by a tab": (400, ["X: a\r\n\tb"]),
    "bare LF": (400, ["X: a\nY: b"]),
    "bare CR": (400, ["X: a\rY: b"]),
    "NUL": (400, ["X: a\0b"]),
    "control byte": (400, ["X: a\x01b"]),
    "delete byte": (400, ["X: a\x7fb"]),
    "NUL in a name": (400, ["X\0: a"]),
    "high byte in a name": (400, [b"X\xe9: a"]),
    "no name": (400, [": a"]),
    "no colon": (400, ["X"]),
    "second host": (400, ["Host: there"]),
    "same host again": (400, ["HOST: here"]),
    "expectation": (417, ["Expect: 200-ok"]),
    "two expectations": (417, ["Expect: 100-continue", "Expect: 100-continue"]),
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_what_could_be_read_in_two_ways_is_refused(name: str) -> None:
    status, headers = SMUGGLING[name]
    with pytest.raises(Refused) as raised:
        read_with(*headers)
    assert raised.value.status == status


LINES = {
    "no version": (400, "GET /"),
    "version 0.9": (505, "GET / HTTP/0.9"),
    "version 1.2": (505, "GET / HTTP/1.2"),
    "version 2.0": (505, "GET / HTTP/2.0"),
    "preface of version 2": (505, "PRI * HTTP/2.0"),
    "long version": (505, "GET / HTTP/01.1"),
    "version in lower case": (400, "GET / http/1.1"),
    "other protocol": (400, "GET / ICE/1.0"),
    "two spaces": (400, "GET  / HTTP/1.1"),
    "space at the end": (400, "GET / HTTP/1.1 "),
    "space in the target": (400, "GET /a b HTTP/1.1"),
    "tab": (400, "GET\t/ HTTP/1.1"),
    "no target": (400, "GET  HTTP/1.1"),
    "control byte in the target": (400, "GET /\x01 HTTP/1.1"),
    "high byte in the target": (400, "GET /\xe9 HTTP/1.1"),
    "fragment": (400, "GET /a#b HTTP/1.1"),
    "relative": (400, "GET a HTTP/1.1"),
    "all": (400, "GET * HTTP/1.1"),
    "other scheme": (400, "GET ftp://here/ HTTP/1.1"),
    "URL of another host": (400, "GET http://there/ HTTP/1.1"),
    "URL without a host": (400, "GET http:///a HTTP/1.1"),
    "URL with a user": (400, "GET http://me@here/ HTTP/1.1"),
    "tunnel": (501, "CONNECT here:80 HTTP/1.1"),
    "tunnel by a path": (501, "CONNECT / HTTP/1.1"),
    "unknown method": (501, "STEAL / HTTP/1.1"),
    "method in lower case": (501, "get / HTTP/1.1"),
    "empty": (400, ""),
}


@pytest.mark.parametrize("name", LINES)
def test_a_request_line_that_is_none_is_refused(name: str) -> None:
    status, line = LINES[name]
    with pytest.raises(Refused) as raised:
        read(line, "Host: here")
    assert raised.value.status == status


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("http://here/a/b?c", b"/a/b", b"c"),
        ("HTTP://HERE/a", b"/a", b""),
        ("http://here", b"/", b""),
        ("http://here?x=/", b"/", b"x=/"),
    ],
)
def test_a_target_may_be_a_url_of_the_same_host(target: str, path: bytes, query: bytes) -> None:
    head = read(f"GET {target} HTTP/1.1", "Host: here")
    assert (head.raw_path, head.raw_query) == (path, query)


def test_options_may_be_of_the_whole_server() -> None:
    assert read("OPTIONS * HTTP/1.1", "Host: here").raw_path == b"*"


def test_host_is_needed_since_version_1_1() -> None:
    assert read("GET / HTTP/1.0").headers == {}
    with pytest.raises(Refused, match="Host"):
        read("GET / HTTP/1.1")


def test_version_1_0_knows_no_chunks() -> None:
    with pytest.raises(Refused):
        read("PUT / HTTP/1.0", "Transfer-Encoding: chunked")


def test_an_offer_of_another_protocol_is_not_taken_up() -> None:
    head = read_with("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "Content-Length: 3")
    assert head.keeps_alive
    assert head.length == 3


def test_expect_is_for_bodies_and_for_version_1_1() -> None:
    assert read_with("Expect: 100-Continue", "Content-Length: 1").expects_continue
    assert not read_with("Expect: 100-continue").expects_continue
    assert not read("PUT / HTTP/1.0", "Expect: x", "Content-Length: 1").expects_continue


def test_limits_are_of_target_size_and_count() -> None:
    limits = Limits(url_bytes_max=64, header_bytes_max=256, header_count_max=3)
    reader = HeadReader(limits)

    def status(target_bytes: int, headers: list[str]) -> int:
        lines = [f"GET /{'a' * (target_bytes - 1)} HTTP/1.1", "Host: here", *headers, "", ""]
        try:
            reader.read("\r\n".join(lines).encode())
        except Refused as refused:
            return refused.status
        return 200

    assert status(64, ["A: 1", "B: 2"]) == 200
    assert status(65, []) == 414
    assert status(64, ["A: 1", "B: 2", "C: 3"]) == 431
    # The end of the request line, two lines, and the empty one.
    room = 256 - len("\r\n" + "Host: here\r\n" + "A: \r\n" + "\r\n")
    assert status(1, ["A: " + "x" * room]) == 200
    assert status(1, ["A: " + "x" * (room + 1)]) == 431


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n", None),
        (b"GE", None),
        (b"GET / HTTP/1.1\n", 400),
        (b"\x16\x03\x01", 400),
        (b"GET /\r\n", 400),
        (b"GET / HTTP/3.0\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: a\n\n", 400),
        (b"G" * (16 * 1024 + 65), 414),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 33_000, 431),
    ],
)
def test_the_begin_of_a_head_is_refused_early(data: bytes, status: int | None) -> None:
    try:
        check_begin(data, LIMITS)
    except Refused as refused:
        assert refused.status == status
    else:
        assert status is None
