"""Refuses requests that web pages of other sites make to a TCP port.

A browser that has stored an access key sends it with every request to the port, whichever page made
the request. But it also sends headers about the origin that a page cannot set:

- `Host` must be a name of the node. In a DNS rebinding attack, the attacker's name resolves to this
  machine, so the browser treats both as the same origin, but `Host` is the attacker's name. IP
  addresses are always allowed, and over TLS the certificate replaces this check.
- `Origin`, if sent, must be the node's own.
- `Sec-Fetch-Site`, if sent, must not name another site, unless the user follows a link.
- A `POST` must not have a `Content-Type` that an HTML form can send, and a `POST` with a body must
  have a `Content-Type`: a page may send a form to any site, and an old browser does not send its
  origin. For other methods that change something, a browser first asks the target site for
  permission (CORS), which the node never gives.

The local socket needs no such check, because pages cannot reach it.
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
        """Allows `localhost`, the machine's name, `listens_on` and `names` as names of the node.

        `names` are separated by commas; `*` allows any `Host`.
        """
        self._configured = frozenset(
            filter(None, (name.strip().lower() for name in names.split(",")))
        )
        machine = socket.gethostname().lower()
        own = {"localhost", listens_on.lower(), machine, machine.partition(".")[0]}
        self._names = self._configured | own

    def check(self, request: Request) -> None:
        """Raises `CrossSite` if a page of another site made the request, or may have made it
        because Host is not a name of the node.

        Raises `UnsupportedMedia` for a POST whose body an HTML form could have sent. Requests on
        the local socket are not checked.
        """
        if not request.peer:
            return
        self._check_host(request)
        self._check_origin(request)
        if request.method == "POST":
            _check_media(request)

    def _check_host(self, request: Request) -> None:
        host = request.headers.get("host")
        if host is None or request.is_secure or ANY in self._configured:
            return
        name = _name_in(host)
        if not (_is_address(name) or name in self._names or name.endswith(".localhost")):
            raise CrossSite(
                f"Host is {host[:_SHOWN_CHARACTERS]!r}, which is not a name of this node; if it "
                "should be, add it to http_names in section [node]"
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
        """Returns whether `origin`, the value of an `Origin` header, is this node.

        A proxy may have changed Host, so the configured names are accepted too.
        """
        try:
            parts = urlsplit(origin.lower())
        except ValueError:
            return False
        return bool(parts.netloc) and (
            parts.netloc == host.lower() or parts.hostname in self._configured
        )


def _check_media(request: Request) -> None:
    is_typed = "content-type" in request.headers
    if media_of(request) in _FORM_TYPES or (not is_typed and request.body.length != 0):
        raise UnsupportedMedia(
            f"a POST over TCP needs a Content-Type that no HTML form can send, such as "
            f"{media.JSON}, or {Raw.BYTES.value} for bytes"
        )


def _is_visit(method: str, headers: Mapping[str, str]) -> bool:
    """Returns whether the user follows a link, so that no page can read the response."""
    return method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"


def _name_in(host: str) -> str:
    """Returns the host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
