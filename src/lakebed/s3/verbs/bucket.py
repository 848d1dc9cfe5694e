"""CreateBucket, HeadBucket and DeleteBucket: `PUT`, `HEAD` and `DELETE` of `/bucket`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.s3.request_document import read_message
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnBucket, Place, Verb
from lakebed.s3.xml_parser import SMALL_BYTES_MAX, parse
from lakebed.seglake.model import Versioning

_VERSIONING_HEADER: Final = "x-seglake-versioning"
_VERSIONINGS: Final = {"enabled": Versioning.ENABLED, "unversioned": Versioning.DISABLED}
_FIRST_REGION: Final = "us-east-1"


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateBucket(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadBucket(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteBucket(OnBucket): ...


async def create_bucket(
    service: Service, operation: CreateBucket, request: Request, identity: Identity
) -> Response:
    """Creates a bucket. Succeeds if it exists, unless the request names a different versioning."""
    versioning = _requested_versioning(request)
    data = await read_message(request, identity, bytes_max=SMALL_BYTES_MAX)
    _check_location(parse_location(data), region=service.config.region)
    await service.commit(service.lake.buckets.creation(operation.bucket, versioning=versioning))
    return Response(200, [("Location", f"/{operation.bucket}")])


def head_bucket(
    service: Service, operation: HeadBucket, _request: Request, _identity: Identity
) -> Response:
    service.lake.buckets.get(operation.bucket)
    return Response(200, [("x-amz-bucket-region", service.config.region)])


async def delete_bucket(
    service: Service, operation: DeleteBucket, _request: Request, _identity: Identity
) -> Response:
    buckets = service.lake.buckets
    await service.run(partial(buckets.check_deletable, operation.bucket))
    while not await service.commit(buckets.deletion(operation.bucket)):
        pass
    return Response(204)


def parse_location(data: bytes) -> str:
    """Returns the region that the body of a CreateBucket request names, or "" if it names none.

    Raises `S3Error` if the body is malformed or has elements other than the region.
    """
    if not data.strip():
        return ""
    root = parse(data, root="CreateBucketConfiguration")
    for child in root.children:
        if child.name != "LocationConstraint":
            raise S3Error(
                "NotImplemented",
                f"The element {child.name} of CreateBucketConfiguration is not implemented",
            )
    return (root.optional("LocationConstraint") or "").strip()


def _requested_versioning(request: Request) -> Versioning | None:
    value = request.headers.get(_VERSIONING_HEADER)
    if value is None:
        return None
    if value not in _VERSIONINGS:
        raise invalid_argument(
            "The versioning of a new bucket must be enabled or unversioned",
            name=_VERSIONING_HEADER,
            value=value,
        )
    return _VERSIONINGS[value]


def _check_location(location: str, *, region: str) -> None:
    """Raises `S3Error` if the requested region is not the configured `region`.

    "" means that no region is requested, and `us` is another name for `us-east-1`.
    """
    if location in ("", region) or (location == "us" and region == _FIRST_REGION):
        return
    raise S3Error(
        "IllegalLocationConstraintException",
        f"The {location} location constraint is incompatible for the region specific endpoint "
        "this request was sent to.",
    )


VERBS: Final = (
    Verb(
        operation=CreateBucket,
        place=Place("PUT", Level.BUCKET),
        handle=create_bucket,
        action="s3:CreateBucket",
        writes=True,
    ),
    Verb(
        operation=HeadBucket,
        place=Place("HEAD", Level.BUCKET),
        handle=head_bucket,
        action="s3:ListBucket",
        writes=False,
    ),
    Verb(
        operation=DeleteBucket,
        place=Place("DELETE", Level.BUCKET),
        handle=delete_bucket,
        action="s3:DeleteBucket",
        writes=True,
    ),
)
