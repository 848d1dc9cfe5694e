"""Keeps pages of other sites away from a port.

A browser sends the access key it remembers with every request to the port, whichever page caused
it. It also says where a request comes from, and those headers cannot be set by a page:

- `Host` must be a name of the node. A page whose own name was made to resolve to this machine
  (DNS rebinding) is of the same origin to the browser, but has that name in `Host`. An address is
  no name, so any may stand there; nor is the name checked over TLS, where the certificate is.
- `Origin` must be the node's own if there is one, and `Sec-Fetch-OriginCheck` must not name
  another site, unless somebody follows a link.
- A `POST` needs a `Content-Type` that no form can send: a page may send a form to any site, and an
  old browser says nothing of its origin. Other methods that change something are not sent to
  another site without being asked for first, which the node never allows.

A local socket needs none of this: no page reaches it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from lakebed.api import media
from lakebed.api.operation import Raw
from lakebed.api.problems import CrossSite
from lakebed.http.request import Request
from lakebed.http_api.call import UnsupportedMedia, media_of

ANY: Final = "*"
_FORM_TYPES: Final = frozenset(
    {"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
_SHOWN_CHARACTERS: Final = 100


class OriginCheck:
    def __init__(self, names: str = "", *, listens_on: str = "localhost") -> None:
        """`names` are more names of the node, separated by commas; `*` is any."""
        self._given = frozenset(filter(None, (one.strip().lower() for one in names.split(","))))
        machine = socket.gethostname().lower()
        own = {"localhost", listens_on.lower(), machine, machine.partition(".")[0]}
        self._names = self._given | own

    def check(self, request: Request) -> None:
        """`CrossSite`; `UnsupportedMedia` for what a form could have sent."""
        if not request.peer:
            return
        self._check_host(request)
        self._check_origin(request)
        if request.method == "POST":
            _check_media(request)

    def _check_host(self, request: Request) -> None:
        host = request.headers.get("host")
        if host is None or request.is_secure or ANY in self._given:
            return
        name = _name_in(host)
        if not (_is_address(name) or name in self._names or name.endswith(".localhost")):
            raise CrossSite(
                f"Host is {host[:_SHOWN_CHARACTERS]!r}, which is no name of this node: if it is "
                "one, add it to http_names in section [node]"
            )

    def _check_origin(self, request: Request) -> None:
        headers = request.headers
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin, headers.get("host", "")):
            raise CrossSite(
                f"the request was made by a page of {origin[:_SHOWN_CHARACTERS]!r}, not of this "
                "node"
            )
        if headers.get("sec-fetch-site") in _OTHER_SITES and not _is_visit(request.method, headers):
            raise CrossSite("the request was made by a page of another site")

    def _is_own(self, origin: str, host: str) -> bool:
        """A proxy may have replaced the name in Host, but not one that was set."""
        try:
            place = urlsplit(origin.lower())
        except ValueError:
            return False
        return bool(place.netloc) and (
            place.netloc == host.lower() or place.hostname in self._given
        )


def _check_media(request: Request) -> None:
    is_typed = "content-type" in request.headers
    if media_of(request) in _FORM_TYPES or (not is_typed and request.body.length != 0):
        raise UnsupportedMedia(
            f"a POST over a port names the type of its body, and none that a form has: "
            f"{media.JSON}, or {Raw.BYTES.value} for bytes"
        )


def _is_visit(method: str, headers: Mapping[str, str]) -> bool:
    """Whether somebody follows a link: what is answered is shown to them, and to no page."""
    return method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"


def _name_in(host: str) -> str:
    """Without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
