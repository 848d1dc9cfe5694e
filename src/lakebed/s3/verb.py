"""The types that the files in `verbs` use: typed requests, and a `Verb` for each of them.

A `Verb` combines a typed request with its route, its handler, the permission that AWS requires for
it, and whether it writes. The router builds all its tables from these declarations, so nothing is
listed twice.
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
    """A typed request, read and checked from path and query. Handlers read headers and body."""

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        """Builds the request; raises `S3Error` for a bad parameter."""
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
    """A request for one version of an object, by default the newest."""

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
    """The key of a route. An empty subresource means the method on the resource itself."""

    method: str
    level: Level
    subresource: str = ""
    has_source: bool = False  # whether `x-amz-copy-source` is given


OperationT = TypeVar("OperationT", bound=Operation)

Handler = Callable[[Service, OperationT, Request, Identity], Response | Awaitable[Response]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb(Generic[OperationT]):
    """One operation of S3, declared once in the file that implements it."""

    operation: type[OperationT]
    place: Place
    handle: Handler[OperationT]
    action: str  # the permission that AWS names, such as s3:GetObject
    writes: bool
    parameters: frozenset[str] = frozenset()  # accepted besides the subresource
    headers: frozenset[str] = frozenset()  # `x-amz-` headers that only this verb reads


AnyVerb = Verb[Any]
