"""Buckets: listed, created, configured and deleted."""

from __future__ import annotations

from functools import partial
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3 import tokens, xml_documents
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML, S3Error, invalid_argument
from lakebed.s3.message import read_message
from lakebed.s3.operations import (
    CreateBucket,
    DeleteBucket,
    GetAbsentConfiguration,
    GetBucketLocation,
    GetBucketVersioning,
    GetObjectTagging,
    HeadBucket,
    ListBuckets,
    PutBucketVersioning,
)
from lakebed.s3.service import Service
from lakebed.s3.xml_documents import BucketPage
from lakebed.s3.xml_parsing import SMALL_BYTES_MAX, parse_location, parse_versioning
from lakebed.seglake.model import BucketInfo, Versioning

_VERSIONING_HEADER: Final = "x-seglake-versioning"
_VERSIONINGS: Final = {"enabled": Versioning.ENABLED, "unversioned": Versioning.DISABLED}
_FIRST_REGION: Final = "us-east-1"
_SCOPE: Final = "buckets"


async def list_buckets(
    service: Service, operation: ListBuckets, _request: Request, _identity: Identity
) -> Response:
    """By name; without a number asked for, all of them."""
    token = operation.continuation_token
    after = tokens.marker_of(token, scope=_SCOPE) if token else ""

    def work() -> bytes:
        found = [] if _is_elsewhere(service, operation.region) else service.lake.buckets.list()
        page = _page(found, operation, after=after, region=service.config.region)
        return xml_documents.list_buckets(page)

    return Response(200, [XML], await service.run(work))


def _is_elsewhere(service: Service, region: str) -> bool:
    return region not in ("", service.config.region)


def _page(
    buckets: list[BucketInfo], operation: ListBuckets, *, after: str, region: str
) -> BucketPage:
    matching = [
        bucket
        for bucket in buckets
        if bucket.name.startswith(operation.prefix) and bucket.name > after
    ]
    shown = matching[: operation.max_buckets]
    has_more = len(shown) < len(matching)
    next_token = tokens.token_of(shown[-1].name, scope=_SCOPE) if has_more else None
    return BucketPage(shown, operation.prefix, region, next_token)


async def create_bucket(
    service: Service, operation: CreateBucket, request: Request, identity: Identity
) -> Response:
    """One that is there already is fine, unless its versioning should be another."""
    versioning = _wanted_versioning(request)
    data = await read_message(request, identity, bytes_max=SMALL_BYTES_MAX)
    _check_location(parse_location(data), region=service.config.region)
    await service.commit(service.lake.buckets.creation(operation.bucket, versioning=versioning))
    return Response(200, [("Location", f"/{operation.bucket}")])


def _wanted_versioning(request: Request) -> Versioning | None:
    value = request.headers.get(_VERSIONING_HEADER)
    if value is None:
        return None
    if value not in _VERSIONINGS:
        raise invalid_argument(
            "A bucket is created enabled or unversioned", name=_VERSIONING_HEADER, value=value
        )
    return _VERSIONINGS[value]


def _check_location(location: str, *, region: str) -> None:
    """There is one region here, and it need not be named."""
    if location in ("", region) or (location == "us" and region == _FIRST_REGION):
        return
    raise S3Error(
        "IllegalLocationConstraintException",
        f"The {location} location constraint is incompatible for the region specific endpoint "
        "this request was sent to.",
    )


async def delete_bucket(
    service: Service, operation: DeleteBucket, _request: Request, _identity: Identity
) -> Response:
    buckets = service.lake.buckets
    await service.run(partial(buckets.check_deletable, operation.bucket))
    while not await service.commit(buckets.deletion(operation.bucket)):
        pass
    return Response(204)


def head_bucket(
    service: Service, operation: HeadBucket, _request: Request, _identity: Identity
) -> Response:
    service.lake.buckets.get(operation.bucket)
    return Response(200, [("x-amz-bucket-region", service.config.region)])


def get_bucket_location(
    service: Service, operation: GetBucketLocation, _request: Request, _identity: Identity
) -> Response:
    service.lake.buckets.get(operation.bucket)
    return Response(200, [XML], xml_documents.location(service.config.region))


def get_bucket_versioning(
    service: Service, operation: GetBucketVersioning, _request: Request, _identity: Identity
) -> Response:
    bucket = service.lake.buckets.get(operation.bucket)
    return Response(200, [XML], xml_documents.versioning(bucket.versioning))


async def put_bucket_versioning(
    service: Service, operation: PutBucketVersioning, request: Request, identity: Identity
) -> Response:
    data = await read_message(request, identity, bytes_max=SMALL_BYTES_MAX)
    wanted = parse_versioning(data)
    await service.commit(service.lake.buckets.configuration(operation.bucket, wanted))
    return Response(200)


def get_absent_configuration(
    service: Service, operation: GetAbsentConfiguration, _request: Request, _identity: Identity
) -> Response:
    """Always an error: that of a bucket that is not there, or has no such configuration."""
    service.lake.buckets.get(operation.bucket)
    raise S3Error(operation.code, operation.message, details=[("BucketName", operation.bucket)])


def get_object_tagging(
    service: Service, operation: GetObjectTagging, _request: Request, _identity: Identity
) -> Response:
    """None, of an object that is there: copies of large objects ask for them."""
    info = service.lake.objects.head(
        operation.bucket, operation.key, version_id=operation.version_id
    )
    bucket = service.lake.buckets.get(operation.bucket)
    headers = [XML]
    if bucket.versioning is not Versioning.DISABLED:
        headers.append(("x-amz-version-id", info.shown_version_id))
    return Response(200, headers, xml_documents.no_tags())
