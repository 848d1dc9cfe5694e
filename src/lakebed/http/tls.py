"""A TLS certificate and its key, read from two files that can be reloaded while the server runs.

New connections use the pair that was read last; existing connections keep theirs. A pair that is
not valid changes nothing.
"""

from __future__ import annotations

import os
import ssl

from lakebed.base.errors import InputError

PathLike = str | os.PathLike[str]


class BadCertificate(InputError):
    """The files are not a certificate and its key."""


class TlsFiles:
    """`context` stays the same object; the certificate that new connections get from it changes."""

    def __init__(self, certificate: PathLike, key: PathLike) -> None:
        """Raises `BadCertificate`."""
        self._certificate = os.fspath(certificate)
        self._key = os.fspath(key)
        self.context = self._current = self._load()
        self.context.sni_callback = self._choose

    def reload(self) -> None:
        """Reads both files again. Raises `BadCertificate`, and then keeps the current pair."""
        self._current = self._load()

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise BadCertificate(
                f"{self._certificate} and {self._key} are not a certificate and its key: {error}"
            ) from error
        return context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        """Called at the start of every handshake, whether or not the client names a server."""
        connection.context = self._current


def _no_password() -> str:
    raise ValueError("the key is encrypted; use one without a password")
