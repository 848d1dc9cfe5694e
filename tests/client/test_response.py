"""Answers as they come from a socket: whole, cut, or wrong."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakebed.base.units import KIB
from lakebed.client.errors import BadAnswer, Failure
from lakebed.client.response import HEAD_BYTES_MAX, ResponseReader

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 10\r\n\r\n0123456789"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4\r\n0123\r\n6;more=1\r\n456789\r\n0\r\nTrailer: x\r\n\r\n"
)


@contextmanager
def reading(*pieces: bytes) -> Iterator[ResponseReader]:
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(30)
        for piece in pieces:
            there.sendall(piece)
        there.shutdown(socket.SHUT_WR)
        yield ResponseReader(here)


def read_all(data: bytes, *, bytes_max: int = 100) -> bytes:
    with reading(data) as reader:
        return bytes(reader.body(reader.head(), bytes_max=bytes_max))


@pytest.mark.parametrize("data", [WHOLE, CHUNKED])
def test_a_whole_answer_is_read(data: bytes) -> None:
    with reading(data) as reader:
        head = reader.head()
        assert (head.status, head.is_last) == (200, False)
        assert reader.body(head, bytes_max=100) == b"0123456789"
        assert reader.is_clean


@pytest.mark.parametrize("data", [WHOLE, CHUNKED])
def test_an_answer_that_is_cut_anywhere_is_a_failure_of_what_was_sent(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(Failure) as told:
            read_all(data[:length])
        assert told.value.is_sent


@pytest.mark.parametrize("data", [WHOLE, CHUNKED])
def test_pieces_are_the_same_bytes_and_are_cut_alike(data: bytes) -> None:
    with reading(data) as reader:
        assert b"".join(reader.pieces(reader.head())) == b"0123456789"
        assert reader.is_clean
    for length in range(len(data)):
        with reading(data[:length]) as reader, pytest.raises(Failure):
            list(reader.pieces(reader.head()))


def test_answers_that_come_together_are_told_apart() -> None:
    with reading(WHOLE + CHUNKED + WHOLE) as reader:
        for _ in range(3):
            head = reader.head()
            assert not reader.is_clean
            assert reader.body(head, bytes_max=100) == b"0123456789"
        assert reader.is_clean


def test_informational_answers_are_passed_over() -> None:
    assert read_all(b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE) == b"0123456789"


def test_an_answer_without_a_body_needs_no_length() -> None:
    assert read_all(b"HTTP/1.1 204 No Content\r\n\r\n") == b""


@pytest.mark.parametrize("line", [b"HTTP/1.0 200 OK", b"HTTP/1.1 200 OK\r\nConnection: close"])
def test_the_last_answer_of_a_connection_is_known(line: bytes) -> None:
    with reading(line + b"\r\nContent-Length: 0\r\n\r\n") as reader:
        assert reader.head().is_last


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 19 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
    ],
)
def test_what_is_no_answer_of_ours_is_a_bad_one(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        read_all(data)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + b"x" * 101 + b"\r\n0\r\n",
    ],
)
def test_more_bytes_than_are_taken_are_refused(data: bytes) -> None:
    with pytest.raises(BadAnswer, match="100"):
        read_all(data, bytes_max=100)


def test_a_head_without_end_is_given_up() -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (HEAD_BYTES_MAX // 6 + KIB)
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        sent = memoryview(endless)
        reader = ResponseReader(here)
        here.settimeout(30)
        sent = sent[there.send(sent) :]
        with pytest.raises(BadAnswer, match="is too long"):
            reader.head()
