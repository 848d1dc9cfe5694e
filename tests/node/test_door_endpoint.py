"""Where the HTTP API may be without TLS."""

from __future__ import annotations

import pytest

from lakebed.base.errors import InputError
from lakebed.node.door_endpoint import check_exposure, is_loopback

EVERYWHERE = "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_alone_needs_no_tls(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, is_secure=False, is_allowed=False)


@pytest.mark.parametrize(
    "host", [EVERYWHERE, "::", "10.0.0.1", "example.com", "", "localhost.evil"]
)
def test_anything_else_needs_tls_or_a_word(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(InputError, match="in clear"):
        check_exposure(host, is_secure=False, is_allowed=False)
    check_exposure(host, is_secure=True, is_allowed=False)
    check_exposure(host, is_secure=False, is_allowed=True)
