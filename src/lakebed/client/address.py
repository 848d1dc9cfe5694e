"""The address of a store: where a client connects, and with which credentials.

An address is one of these:

- a root folder: the client connects to its socket `lakebed.sock`, which is protected by file
  permissions alone;
- `http[s]://[key:secret@]host[:port]`; without a port, 80 or 443.

The credentials for a URL come from the arguments, else from the URL, else from the environment. The
local socket needs none. Secrets never appear in error messages or representations.
"""

from __future__ import annotations

import os
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from lakebed.base.errors import InputError

SOCKET_NAME = "lakebed.sock"
ACCESS_KEY_VARIABLE = "LAKEBED_ACCESS_KEY"
SECRET_KEY_VARIABLE = "LAKEBED_SECRET_KEY"  # noqa: S105 - a name
PORTS = {"http": 80, "https": 443}

PathLike = str | os.PathLike[str]

_HOST = re.compile(r"[0-9A-Za-z._:%-]{1,255}", re.ASCII)


class Credentials(NamedTuple):
    access_key: str
    secret_key: str

    @property
    def authorization(self) -> str:
        """The value of the Authorization header."""
        return "Basic " + b64encode(f"{self.access_key}:{self.secret_key}".encode()).decode()

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, …)"


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a store listens: the path of a socket, or a host and a port."""

    path: str = ""
    host: str = "localhost"
    port: int = 0
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Returns the path of the socket, or the host and the port. The text contains no secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.path or f"{host}:{self.port}"

    @property
    def host_header(self) -> str:
        return "localhost" if self.path else str(self)


def is_url(address: PathLike) -> bool:
    """Returns whether the address is a URL; otherwise it is the path of a root folder."""
    return isinstance(address, str) and "://" in address


def address_of(
    url_or_root: PathLike,
    *,
    access_key: str | None = None,
    secret_key: str | None = None,
    ca_file: PathLike | None = None,
    context: ssl.SSLContext | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Address:
    """Returns the address of a store, given its URL or its root folder. Raises `InputError` if the
    URL or another argument is not valid.

    `ca_file` is a file with the certificates to trust; `context` is a complete TLS context. At most
    one of them may be given, and only for `https`.
    """
    arguments = _pair(access_key, secret_key, "access_key and secret_key")
    if not is_url(url_or_root):
        if ca_file is not None or context is not None:
            raise InputError(
                "ca_file and context are only for https URLs: the local socket of a root has no TLS"
            )
        return Address(
            path=os.path.join(os.fspath(url_or_root), SOCKET_NAME), credentials=arguments
        )
    url = _split(os.fspath(url_or_root))
    from_environment = _pair(
        environment.get(ACCESS_KEY_VARIABLE),
        environment.get(SECRET_KEY_VARIABLE),
        f"{ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}",
    )
    return Address(
        host=url.hostname or "",
        port=url.port or PORTS[url.scheme],
        credentials=arguments or _of_url(url) or from_environment,
        tls=_tls(url.scheme, ca_file, context),
    )


def _split(text: str) -> SplitResult:
    """Splits a URL into its parts. Errors do not quote the URL, because it may contain a secret."""
    try:
        url = urlsplit(text)
        is_whole = url.port != 0 and _HOST.fullmatch(url.hostname or "") is not None
    except ValueError:
        raise InputError("the URL of the store is not valid: its host or port is wrong") from None
    if url.scheme not in PORTS:
        raise InputError("the URL of the store must begin with http:// or https://")
    if not is_whole or url.path not in ("", "/") or url.query or url.fragment:
        raise InputError(
            "the URL of the store must be http[s]://[key:secret@]host[:port], without a path, "
            "a query or a fragment"
        )
    return url


def _of_url(url: SplitResult) -> Credentials | None:
    if url.username is None and url.password is None:
        return None
    return _pair(
        unquote(url.username or ""), unquote(url.password or ""), "key and secret of the URL"
    )


def _pair(access_key: str | None, secret_key: str | None, what: str) -> Credentials | None:
    if access_key is None and secret_key is None:
        return None
    if not access_key or not secret_key:
        raise InputError(f"{what}: one of them is missing or empty; set both or neither")
    if ":" in access_key:
        raise InputError(f"{what}: an access key must not contain a colon")
    return Credentials(access_key, secret_key)


def _tls(
    scheme: str, ca_file: PathLike | None, context: ssl.SSLContext | None
) -> ssl.SSLContext | None:
    if scheme != "https":
        if ca_file is not None or context is not None:
            raise InputError("ca_file and context are only for https URLs")
        return None
    if ca_file is not None and context is not None:
        raise InputError("ca_file and context cannot be combined: set one of them")
    if context is not None:
        return context
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else os.fspath(ca_file))
    except OSError as error:  # an SSLError is an OSError
        raise InputError(
            f"{ca_file}: cannot load certificates: {error.strerror or error}"
        ) from None
    context.set_alpn_protocols(["http/1.1"])
    return context
