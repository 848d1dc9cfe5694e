"""The address of the store that a query reads or writes: a folder that all tasks share, or an HTTP
API with credentials.

    with backend_of(options).open() as store:
        store.topics.open("orders").bounds()

A `Backend` is plain data and is sent to the workers. An open store is not sent: each process opens
its own. Neither `str` nor `repr` of a backend contains a secret.
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

# Imported only when used: every Spark process imports this module, but needs only one of these.
if TYPE_CHECKING:
    from lakebed.api.read_surface import ReadableStore
    from lakebed.client.store import RemoteStore
    from lakebed.store.read_only import ReadOnlyStore

_FETCH_BYTES = 8 * MIB  # per response
BACKEND_OPTIONS = ("path", "endpoint", "accessKey", "secretKey", "caFile")


@dataclass(frozen=True)
class Backend:
    """The address of a store, with credentials for an HTTP API. Exactly one of `path` and
    `endpoint` is set.
    """

    path: str = ""
    endpoint: str = field(default="", repr=False)  # may contain credentials
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    ca_file: str = ""

    def __post_init__(self) -> None:
        """Makes the path absolute where the backend is created, because workers may have other
        working directories. Drops a leading `file://`.
        """
        if self.path:
            object.__setattr__(self, "path", os.path.abspath(self.path.removeprefix("file://")))

    @property
    def batch_bytes_max(self) -> int | None:
        """The maximum size in bytes of the batches that a read requests.

        It is 8 MiB for an endpoint, to save round trips. For a store in a folder it is None, which
        means the default of the reader.
        """
        return None if self.path else _FETCH_BYTES

    def open(self) -> ReadableStore:
        """Opens the store for reading; the caller closes it.

        If the backend is an endpoint, nothing is sent to it until the first call.
        """
        return self._files() if self.path else self.connect()

    def _files(self) -> ReadOnlyStore:
        from lakebed.store.read_only import ReadOnlyStore

        try:
            return ReadOnlyStore(self.path)
        except NotFound as error:
            # The task may run on another machine, or as another user, than the planning process.
            raise NotFound(
                f"{error} (looked up by user id {os.geteuid()} on host {socket.gethostname()}); "
                "if the tasks do not share the store's files, set the option endpoint instead of "
                "path"
            ) from None

    def connect(self) -> RemoteStore:
        """Returns a client for the store's HTTP API.

        With an endpoint, the client connects to that address; with a path, it connects to the local
        socket of the process that has the store open.
        """
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
    """Returns the backend that the options describe. Raises `BadConfig` if they are invalid.

    If neither the options nor the URL of the endpoint have credentials, the environment variables
    of this process are used. The backend is sent to the workers, whose environment may differ.
    """
    if options.one_of("path", "endpoint") == "path":
        for name in ("accessKey", "secretKey", "caFile"):
            if options.has(name):
                raise BadConfig(f"the option {name} can only be used with endpoint, not with path")
        return Backend(path=options.required("path"))
    endpoint = options.required("endpoint")
    if not is_url(endpoint):
        raise BadConfig("the option endpoint must be a URL such as http://127.0.0.1:9001")
    access_key, secret_key = options.text("accessKey"), options.text("secretKey")
    if (access_key is None) != (secret_key is None):
        raise BadConfig("set both options accessKey and secretKey, or neither")
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
    """Returns this backend as options of a Spark read or write: the reverse of `backend_of`."""
    options = {
        "path": backend.path,
        "endpoint": backend.endpoint,
        "accessKey": backend.access_key,
        "secretKey": backend.secret_key,
        "caFile": backend.ca_file,
    }
    return {name: text for name, text in options.items() if text}
