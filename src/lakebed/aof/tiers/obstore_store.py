"""Object stores that use the library `obstore`: S3 and compatible stores, and one in memory.

The library is configured not to retry, and to fail after the timeouts in `S3Options`. Only
`retrying_store` retries.

An object of up to `part_bytes` is sent in one request. A larger object is sent in parts: two parts
are sent at a time, and at most three are in memory. If a crash interrupts such an upload, its parts
stay in the bucket and are not listed: a bucket should have a lifecycle rule that removes unfinished
uploads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakebed.aof.tiers.errors import Missing, Unavailable
from lakebed.aof.tiers.object_store import (
    ObjectInfo,
    PutResult,
    check_key,
    check_metadata,
    check_prefix,
)
from lakebed.aof.tiers.ranges import RangeSource, pieces
from lakebed.aof.tiers.s3_errors import status_of, translated
from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, MIB

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import MemoryStore, S3Store

_PARTS_AT_ONCE = 2
_RANGE_NOT_SATISFIABLE = 416
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """The settings of a connection to an S3 store.

    Empty fields are taken from the `AWS_…` environment variables.
    """

    endpoint: str = ""
    region: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    allow_http: bool = False  # to other machines; to this machine it is always allowed
    virtual_hosted: bool = False  # bucket.host/key instead of host/bucket/key
    connect_timeout_ms: int = bounded(5_000, minimum=1, maximum=600_000)
    request_timeout_ms: int = bounded(30_000, minimum=1, maximum=3_600_000)
    part_bytes: int = bounded(8 * MIB, minimum=5 * MIB, maximum=GIB)

    def __post_init__(self) -> None:
        check(self)
        if self.endpoint.startswith("http://") and not self.may_use_http:
            raise BadConfig(
                f"connections to endpoint {self.endpoint} are not encrypted: use https, or set "
                "allow_http"
            )

    @property
    def may_use_http(self) -> bool:
        host = self.endpoint.removeprefix("http://").partition("/")[0].rpartition(":")
        return self.allow_http or (host[0] or host[2]) in _LOOPBACK


class ObstoreStore:
    """An `ObjectStore` that calls a store of the library `obstore`. Thread-safe."""

    def __init__(self, store: S3Store | MemoryStore, *, part_bytes: int) -> None:
        self._store = store
        self._part_bytes = part_bytes

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:
        import obstore

        check_key(key)
        check_metadata(metadata)
        is_small = source.size <= self._part_bytes
        content = (
            source.read_range(0, source.size)
            if is_small
            else pieces(source, bytes_max=self._part_bytes)
        )
        with _translating("put", key):
            result = obstore.put(
                self._store,
                key,
                content,
                attributes=dict(metadata),
                use_multipart=not is_small,
                chunk_size=self._part_bytes,
                max_concurrency=_PARTS_AT_ONCE,
            )
        return PutResult(result["e_tag"] or "")

    def get_range(self, key: str, *, offset: int, length: int) -> bytes:
        import obstore

        check_key(key)
        if length <= 0:
            return b""
        with _translating("get", key):
            try:
                return obstore.get_range(self._store, key, start=offset, length=length).to_bytes()
            except obstore.exceptions.GenericError as error:
                if _is_beyond_end(error):
                    return b""
                raise

    def head(self, key: str) -> ObjectInfo:
        import obstore

        check_key(key)
        try:
            with _translating("head", key):
                response = obstore.get(self._store, key, options={"head": True})
        except Missing:
            # A HEAD response has no body: a GET shows whether the bucket itself is missing.
            self.get_range(key, offset=0, length=1)
            raise
        # The library's own names, such as Content-Type, have capitals; metadata names have none.
        metadata = {name: text for name, text in response.attributes.items() if name.islower()}
        return _info(response.meta)._replace(metadata=metadata)

    def delete(self, key: str) -> None:
        import obstore

        check_key(key)
        with contextlib.suppress(Missing), _translating("delete", key):
            obstore.delete(self._store, key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        import obstore

        check_prefix(prefix)
        with _translating("list", prefix):
            for page in obstore.list(self._store, prefix or None, chunk_size=1000):
                yield from map(_info, page)


def open_s3(bucket: str, prefix: str, options: S3Options) -> ObstoreStore:
    """Opens the part of a bucket below `prefix` as a store, without connecting yet."""
    from datetime import timedelta

    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    config = {
        # Both are set: an S3-specific value in the environment would override `endpoint`.
        "endpoint": options.endpoint,
        "aws_endpoint_url_s3": options.endpoint,
        "region": options.region,
        "access_key_id": options.access_key_id,
        "secret_access_key": options.secret_access_key,
        "session_token": options.session_token,
    }
    try:
        store = S3Store(
            bucket,
            prefix=prefix or None,
            config={name: text for name, text in config.items() if text},  # type: ignore[arg-type]
            virtual_hosted_style_request=options.virtual_hosted,
            disable_bulk_delete=True,  # not every provider supports it, and it is not needed
            client_options={
                "allow_http": options.may_use_http,
                "connect_timeout": timedelta(milliseconds=options.connect_timeout_ms),
                "timeout": timedelta(milliseconds=options.request_timeout_ms),
            },
            retry_config={"max_retries": 0},
        )
    except (BaseError, ValueError) as error:
        raise BadConfig(f"s3://{bucket}: {' '.join(str(error).split())[:200]}") from None
    return ObstoreStore(store, part_bytes=options.part_bytes)


def open_memory() -> ObstoreStore:
    """Returns a new, empty store in memory, which is lost when the process ends."""
    from obstore.store import MemoryStore

    return ObstoreStore(MemoryStore(), part_bytes=8 * MIB)


@contextlib.contextmanager
def _translating(operation: str, key: str) -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        translated_error = translated(error, operation=operation, key=key)
        if isinstance(translated_error, Missing) and operation in ("put", "list"):
            translated_error = Unavailable(str(translated_error))  # the bucket itself is missing
        raise translated_error from None


def _info(meta: ObjectMeta) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], meta["e_tag"] or "", None)


def _is_beyond_end(error: Exception) -> bool:
    return status_of(error) == _RANGE_NOT_SATISFIABLE or "Wanted range starting at" in str(error)
