"""Which requests over a port are let in by what a browser says of where they are from."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakebed.api.problems import CrossSite
from lakebed.http.body import WholeBody
from lakebed.http_api.call import UnsupportedMedia
from lakebed.http_api.origin_check import OriginCheck
from tests.node.requests import request_of

HERE = "127.0.0.1:9001"


def is_let_in(
    site: OriginCheck,
    *,
    method: str = "GET",
    body: bytes = b"",
    is_secure: bool = False,
    peer: str = "127.0.0.1",
    headers: Mapping[str, str],
) -> bool:
    request = request_of("/metrics", peer=peer, **headers)
    request.method, request.body, request.is_secure = method, WholeBody(body), is_secure
    try:
        site.check(request)
    except (CrossSite, UnsupportedMedia):
        return False
    return True


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (HERE, True),
        ("[::1]:9001", True),
        ("192.168.7.9", True),
        ("localhost:9001", True),
        ("Localhost.", True),
        ("s3.localhost", True),
        ("node-7.internal:9001", True),
        ("lake.example.com", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("notlocalhost", False),
        ("example.com", False),
        ("", False),
    ],
)
def test_a_name_is_the_nodes_or_none(host: str, expected: bool) -> None:
    site = OriginCheck("lake.example.com, second.example", listens_on="node-7.internal")
    assert is_let_in(site, headers={"host": host}) is expected
    assert is_let_in(site, headers={"host": host}, is_secure=True), "the certificate has the name"
    assert is_let_in(site, headers={"host": host}, peer=""), "a local socket"
    assert is_let_in(OriginCheck("*"), headers={"host": host})


def test_one_who_says_no_name_is_no_browser() -> None:
    assert is_let_in(OriginCheck(), headers={})


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (f"http://{HERE}", True),
        ("https://lake.example.com", True),
        ("http://127.0.0.1:3000", False),
        ("http://127.0.0.1", False),
        ("http://localhost:9001", False),
        ("https://evil.example", False),
        ("null", False),
        ("", False),
        ("http://[", False),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_a_page_is_the_nodes_or_is_refused(origin: str, expected: bool, method: str) -> None:
    site = OriginCheck("lake.example.com", listens_on="127.0.0.1")
    said = {"host": HERE, "origin": origin, "content_type": "application/json"}
    assert is_let_in(site, method=method, headers=said) is expected
    assert is_let_in(site, method=method, is_secure=True, headers=said) is expected


@pytest.mark.parametrize(
    ("said", "mode", "method", "expected"),
    [
        ("same-origin", "cors", "POST", True),
        ("none", "navigate", "GET", True),
        ("cross-site", "no-cors", "GET", False),
        ("same-site", "no-cors", "GET", False),
        ("cross-site", "navigate", "GET", True),
        ("cross-site", "navigate", "POST", False),
    ],
)
def test_a_link_may_be_followed_but_nothing_embedded(
    said: str, mode: str, method: str, expected: bool
) -> None:
    headers = {
        "host": HERE,
        "sec_fetch_site": said,
        "sec_fetch_mode": mode,
        "content_type": "application/json",
    }
    assert is_let_in(OriginCheck(), method=method, headers=headers) is expected


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("application/json", b"{}", True),
        ("application/json; charset=utf-8", b"{}", True),
        ("application/msgpack", b"x", True),
        ("application/octet-stream", b"x", True),
        ("text/plain", b"x", False),
        ("Text/Plain;charset=utf-8", b"x", False),
        ("application/x-www-form-urlencoded", b"", False),
        ("multipart/form-data; boundary=x", b"x", False),
        (None, b"x", False),
        (None, b"", True),
    ],
)
def test_a_post_has_a_type_that_no_form_has(kind: str | None, body: bytes, expected: bool) -> None:
    headers = {"host": HERE} | ({} if kind is None else {"content_type": kind})
    assert is_let_in(OriginCheck(), method="POST", body=body, headers=headers) is expected
    assert is_let_in(OriginCheck(), method="PUT", body=body, headers=headers)
