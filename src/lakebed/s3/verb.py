"""The types with which the modules in `verbs` declare S3 operations.

An `Operation` is a typed request. A `Verb` combines it with its route, its handler, the permission
that AWS requires for it, and whether it writes. The router builds its routing table from these
declarations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.address import Address
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import invalid_argument
from lakebed.s3.query import Query
from lakebed.s3.service import Service


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A typed request: the values in the path and query, parsed and checked.

    Headers and body are not included; the handler reads them.
    """

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        """Builds the typed request; raises `S3Error` if a query parameter is not valid."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class OnBucket(Operation):
    bucket: str

    @classmethod
    def read(cls, address: Address, _query: Query, /) -> Operation:
        return cls(bucket=address.bucket)


@dataclass(frozen=True, kw_only=True, slots=True)
class OnObject(OnBucket):
    key: str

    @classmethod
    def read(cls, address: Address, _query: Query, /) -> Operation:
        return cls(bucket=address.bucket, key=address.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class OnVersion(OnObject):
    """A request for an object, or for one of its versions if `version_id` is given."""

    version_id: str | None = None

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        return cls(bucket=address.bucket, key=address.key, version_id=query.version_id())


@dataclass(frozen=True, kw_only=True, slots=True)
class OnUpload(OnObject):
    upload_id: str

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        return cls(bucket=address.bucket, key=address.key, upload_id=query.upload_id())


@dataclass(frozen=True, kw_only=True, slots=True)
class OnPart(OnUpload):
    part_number: int

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        number = query.part_number()
        if number is None:
            raise invalid_argument(
                "This operation requires a part number", name="partNumber", value=""
            )
        return cls(
            bucket=address.bucket,
            key=address.key,
            upload_id=query.upload_id(),
            part_number=number,
        )


class Level(StrEnum):
    SERVICE = "service"
    BUCKET = "bucket"
    OBJECT = "object"


class Place(NamedTuple):
    """The requests that a verb handles: a method on a service, bucket, object or subresource.

    An empty `subresource` means the service, bucket or object itself.
    """

    method: str
    level: Level
    subresource: str = ""
    has_source: bool = False  # whether the request is a PUT with `x-amz-copy-source`


OperationT = TypeVar("OperationT", bound=Operation)

Handler = Callable[[Service, OperationT, Request, Identity], Response | Awaitable[Response]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb(Generic[OperationT]):
    """The declaration of one S3 operation, such as GetObject."""

    operation: type[OperationT]
    place: Place
    handle: Handler[OperationT]
    action: str  # the permission that AWS names, such as s3:GetObject
    writes: bool
    parameters: frozenset[str] = frozenset()  # accepted in the query besides the subresource
    headers: frozenset[str] = frozenset()  # `x-amz-` headers that it reads, besides the shared ones


AnyVerb = Verb[Any]
