"""A TLS certificate and its key, read from two files that can be reloaded while the server runs.

New connections use the certificate that was read last; existing connections keep theirs. If the
files are invalid, a reload changes nothing.
"""

from __future__ import annotations

import os
import ssl

from lakebed.base.errors import InputError

PathLike = str | os.PathLike[str]


class BadCertificate(InputError):
    """The files cannot be read, or are not a certificate and its unencrypted private key."""


class TlsFiles:
    """The certificate of a server, which can be reloaded.

    After a reload, `context` is the same object, but new connections get the new certificate.
    """

    def __init__(self, certificate: PathLike, key: PathLike) -> None:
        """Reads both files; raises `BadCertificate` if they are not valid."""
        self._certificate = os.fspath(certificate)
        self._key = os.fspath(key)
        self.context = self._current = self._load()
        self.context.sni_callback = self._choose

    def reload(self) -> None:
        """Reads both files again. Raises `BadCertificate` if they are not valid.

        In that case the current certificate stays in use.
        """
        self._current = self._load()

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise BadCertificate(
                f"cannot load the TLS certificate {self._certificate} with the private key "
                f"{self._key}: {error}"
            ) from error
        return context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        """Selects the current certificate for a connection, at the start of its TLS handshake."""
        connection.context = self._current


def _no_password() -> str:
    raise ValueError("the private key is encrypted; use a key file without a password")
