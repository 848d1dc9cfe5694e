"""The location of a Delta table: its bucket and prefix, and the S3 endpoint that serves it.

A location is plain data. It is created where a query is planned, and sent to the tasks. Neither
`str` nor `repr` contains the secret key. It is created from the option `table`, and from either
`s3Endpoint` or `path`:

    table       `bucket/prefix`
    s3Endpoint  the URL of an S3 endpoint, used with `accessKey`, `secretKey` and `region`; if both
                keys are missing, they are taken from the environment (`LAKEBED_…`, then `AWS_…`);
                with https, `caFile` names a file with the certificates to trust
    path        the root of a store whose S3 API a Spark run serves (see `lakebed.spark.own_s3`)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lakebed.base.errors import BadConfig, LakebedError
from lakebed.base.files import read_file
from lakebed.base.units import MIB, shown
from lakebed.kernels.disk import real_disk
from lakebed.spark.options import Options
from lakebed.spark.own_s3 import find_own_s3

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Store
    from pyarrow.fs import S3FileSystem

PLACE_OPTIONS: Final = ("path", "s3Endpoint", "accessKey", "secretKey", "region", "caFile", "table")
REGION: Final = "us-east-1"
TIMEOUT_S: Final = 60.0
CA_BYTES_MAX: Final = 16 * MIB

_TRUST_VARIABLE: Final = "SSL_CERT_FILE"
_TRUST_LOCK: Final = Lock()
_KEY_VARIABLES: Final = (
    ("LAKEBED_ACCESS_KEY", "LAKEBED_SECRET_KEY"),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
)


@dataclass(frozen=True)
class TableLocation:
    """The location of a table in S3. `prefix` is not empty, and has no slash at either end."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)
    bucket: str
    prefix: str
    region: str = REGION
    ca_file: str = ""  # the same path on all machines; if empty, the system's certificates are used

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def __str__(self) -> str:
        return f"{self.bucket}/{self.prefix}"

    def with_table(self, table: str) -> TableLocation:
        """Returns the location of another table on the same endpoint."""
        bucket, prefix = bucket_and_prefix(table)
        return replace(self, bucket=bucket, prefix=prefix)

    def storage_options(self) -> dict[str, str]:
        """Returns the options with which `deltalake` accesses the bucket.

        They make each commit a conditional PUT, which fails if the version already exists.
        """
        options = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "conditional_put": "etag",
            "timeout": f"{TIMEOUT_S:.0f}s",
        }
        if self.endpoint.startswith("http://"):
            options["AWS_ALLOW_HTTP"] = "true"
        return options

    def file_system(self, *, creates_buckets: bool = False) -> S3FileSystem:
        """Returns a pyarrow file system for the whole endpoint. Its paths start with the bucket."""
        from pyarrow.fs import S3FileSystem

        parts = urlsplit(self.endpoint)
        return S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            region=self.region,
            scheme=parts.scheme,
            endpoint_override=parts.netloc,
            connect_timeout=TIMEOUT_S,
            request_timeout=TIMEOUT_S,
            allow_bucket_creation=creates_buckets,
            tls_ca_file_path=self.ca_file or None,
        )

    def object_store(self) -> S3Store:
        """Returns an obstore client for the bucket.

        Use it to delete files: when `file_system` deletes a file, it creates an empty object for
        the folder of the file.
        """
        from obstore.store import S3Store

        return S3Store(
            self.bucket,
            endpoint=self.endpoint,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            region=self.region,
            client_options=self._client_options(),
        )

    def _client_options(self) -> ClientConfig:
        options: ClientConfig = {"allow_http": self.endpoint.startswith("http://")}
        if self.ca_file:
            options["root_certificate"] = read_ca_file(self.ca_file)
        return options

    @contextmanager
    def trusted(self) -> Iterator[None]:
        """Makes `deltalake` trust the certificates in `caFile` within the `with` block.

        `deltalake` has no option for that: it only reads an environment variable, when it creates
        its HTTP client. With a `caFile`, only one thread at a time can be in such a block, and
        blocks must not be nested.
        """
        if not self.ca_file:
            yield
            return
        read_ca_file(self.ca_file)
        with _TRUST_LOCK:
            before = os.environ.get(_TRUST_VARIABLE)
            os.environ[_TRUST_VARIABLE] = self.ca_file
            try:
                yield
            finally:
                if before is None:
                    del os.environ[_TRUST_VARIABLE]
                else:
                    os.environ[_TRUST_VARIABLE] = before

    def key(self, path: str) -> str:
        """Returns the path of a file of the table in the form that `file_system` takes.

        `path` is relative to the table.
        """
        return f"{self.bucket}/{self.prefix}/{path}"


def table_location(options: Options) -> TableLocation:
    """Creates the location of a table from the options.

    Raises `BadConfig` if they are invalid, and `NotFound` if the option `path` is set and no Spark
    run serves the S3 API of that store.
    """
    bucket, prefix = bucket_and_prefix(options.required("table"))
    fields: dict[str, Any] = {"bucket": bucket, "prefix": prefix}
    if options.one_of("path", "s3Endpoint") == "path":
        for name in ("accessKey", "secretKey", "region", "caFile"):
            if options.has(name):
                raise BadConfig(
                    f"the option {name} can only be used with s3Endpoint, not with path"
                )
        own = find_own_s3(os.path.abspath(options.required("path").removeprefix("file://")))
        return TableLocation(own.url, own.access_key, own.secret_key, region=own.region, **fields)
    endpoint = options.required("s3Endpoint").rstrip("/")
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query:
        raise options.wrong(
            "s3Endpoint", "an http or https URL without a path, such as http://127.0.0.1:9000"
        )
    access_key, secret_key = _keys(options, os.environ)
    region = options.text("region") or REGION
    ca_file = options.text("caFile") or ""
    if ca_file and parts.scheme != "https":
        raise options.wrong("caFile", "omitted unless s3Endpoint is https")
    fields |= {"region": region, "ca_file": ca_file and os.path.abspath(ca_file)}
    return TableLocation(endpoint, access_key, secret_key, **fields)


def read_ca_file(path: str) -> bytes:
    """Returns the content of a file of certificates. Raises `BadConfig` if it cannot be read.

    Without this check, the S3 libraries would only report a failed connection.
    """
    try:
        return read_file(real_disk(), path, size_max=CA_BYTES_MAX)
    except LakebedError as error:
        raise BadConfig(
            f"cannot read the certificates in the file that caFile names: {error}"
        ) from error


def bucket_and_prefix(table: str) -> tuple[str, str]:
    """Splits `bucket/prefix`, which may start with `s3://` or `s3a://`.

    Raises `BadConfig` if it is invalid.
    """
    bucket, _, prefix = table.removeprefix("s3://").removeprefix("s3a://").partition("/")
    prefix = prefix.strip("/")
    parts = prefix.split("/")
    if not bucket or not prefix or any(part in ("", ".", "..") for part in parts):
        raise BadConfig(
            f"the option table is {shown(table)}: it must be bucket/prefix, with no "
            "empty, '.' or '..' part"
        )
    if not prefix.isascii() or not prefix.isprintable() or set(prefix) & set(" %#?*<>{}|\\^`\"'"):
        raise BadConfig(
            f"the option table is {shown(table)}: the prefix must be printable ASCII without "
            "spaces and without any of % # ? * < > { } | \\ ^ ` \" '"
        )
    return bucket, prefix


def _keys(options: Options, environment: Mapping[str, str]) -> tuple[str, str]:
    access_key, secret_key = options.text("accessKey"), options.text("secretKey")
    if (access_key is None) != (secret_key is None):
        raise BadConfig("set both options accessKey and secretKey, or neither")
    if access_key is not None and secret_key is not None:
        return access_key, secret_key
    for access_name, secret_name in _KEY_VARIABLES:
        if environment.get(access_name) and environment.get(secret_name):
            return environment[access_name], environment[secret_name]
    raise BadConfig(
        "the option s3Endpoint needs credentials: set the options accessKey and secretKey, or "
        "LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY in the environment"
    )
