"""Which store is read or written: a folder that all tasks share, or an HTTP API with credentials.

    with backend_of(options).open() as store:
        store.topics.open("orders").bounds()

A backend is plain and travels to the workers; what it opens stays where it was opened. No text that
is made of it has a secret.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakebed.base.errors import BadConfig, NotFound
from lakebed.base.units import MIB
from lakebed.client.address import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, is_url
from lakebed.spark.options import Options

# Each of Spark's many processes imports this, and needs one of the two.
if TYPE_CHECKING:
    from lakebed.api.read_surface import ReadableStore
    from lakebed.client.store import RemoteStore
    from lakebed.store.read_only import ReadOnlyStore

_FETCH_BYTES = 8 * MIB  # of one answer
BACKEND_OPTIONS = ("path", "endpoint", "accessKey", "secretKey", "caFile")


@dataclass(frozen=True)
class Backend:
    """One of `path` and `endpoint` is not empty."""

    path: str = ""
    endpoint: str = field(default="", repr=False)  # it may have a secret
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    ca_file: str = ""

    def __post_init__(self) -> None:
        """A path is one of the driver's folder, not of the one that a worker happens to run in."""
        if self.path:
            object.__setattr__(self, "path", os.path.abspath(self.path.removeprefix("file://")))

    @property
    def batch_bytes_max(self) -> int | None:
        """Of one batch that is read: large over an endpoint, for fewer round trips."""
        return None if self.path else _FETCH_BYTES

    def open(self) -> ReadableStore:
        """For reading; close it. Of an endpoint nothing is known before the first call."""
        return self._files() if self.path else self.connect()

    def _files(self) -> ReadOnlyStore:
        from lakebed.store.read_only import ReadOnlyStore

        try:
            return ReadOnlyStore(self.path)
        except NotFound as error:
            # A task's machine need not be the one where the query was planned, nor its user.
            raise NotFound(
                f"{error} for user {os.geteuid()} on {socket.gethostname()}; tasks that do not "
                "share the store's files read it by the option endpoint, in place of path"
            ) from None

    def connect(self) -> RemoteStore:
        """The HTTP API of it: that of the endpoint, or of whoever serves the root's socket."""
        from lakebed.client.store import RemoteStore

        return RemoteStore.open(
            self.endpoint or self.path,
            access_key=self.access_key or None,
            secret_key=self.secret_key or None,
            ca_file=self.ca_file or None,
        )

    def __str__(self) -> str:
        return self.path or self.endpoint.rpartition("@")[2]


def backend_of(options: Options) -> Backend:
    """What the options say; credentials that they leave out are those of the environment here.

    They are looked up where the query is planned, and travel: workers may have another environment.
    """
    if options.one_of("path", "endpoint") == "path":
        for name in ("accessKey", "secretKey", "caFile"):
            if options.has(name):
                raise BadConfig(f"the option {name} goes with endpoint, and not with path")
        return Backend(path=options.required("path"))
    endpoint = options.required("endpoint")
    if not is_url(endpoint):
        raise BadConfig("the option endpoint must be a URL, as in http://127.0.0.1:9001")
    access_key, secret_key = options.text("accessKey"), options.text("secretKey")
    if (access_key is None) != (secret_key is None):
        raise BadConfig("the options accessKey and secretKey: one of both is missing")
    if access_key is None and "@" not in endpoint:
        access_key = os.environ.get(ACCESS_KEY_VARIABLE)
        secret_key = os.environ.get(SECRET_KEY_VARIABLE)
    return Backend(
        endpoint=endpoint,
        access_key=access_key or "",
        secret_key=secret_key or "",
        ca_file=options.text("caFile") or "",
    )


def backend_options(backend: Backend) -> dict[str, str]:
    """What `backend_of` reads this backend from: for `.options(**…)` of a read or a write."""
    options = {
        "path": backend.path,
        "endpoint": backend.endpoint,
        "accessKey": backend.access_key,
        "secretKey": backend.secret_key,
        "caFile": backend.ca_file,
    }
    return {name: text for name, text in options.items() if text}
