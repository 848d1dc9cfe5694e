"""GetBucketVersioning and PutBucketVersioning: `/bucket?versioning`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML, S3Error
from lakebed.s3.request_document import read_message
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnBucket, Place, Verb
from lakebed.s3.xml_parser import SMALL_BYTES_MAX, parse
from lakebed.s3.xml_text import document, element
from lakebed.seglake.model import Versioning

_STATUSES: Final = {"Enabled": Versioning.ENABLED, "Suspended": Versioning.SUSPENDED}
_STATUS_TEXTS: Final = {versioning: status for status, versioning in _STATUSES.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class GetBucketVersioning(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PutBucketVersioning(OnBucket): ...


def get_bucket_versioning(
    service: Service, operation: GetBucketVersioning, _request: Request, _identity: Identity
) -> Response:
    """Responds with the versioning status, which is left out if the bucket was never versioned."""
    versioning = service.lake.buckets.get(operation.bucket).versioning
    status = _STATUS_TEXTS.get(versioning)
    parts = [] if status is None else [element("Status", status)]
    return Response(200, [XML], document("VersioningConfiguration", parts))


async def put_bucket_versioning(
    service: Service, operation: PutBucketVersioning, request: Request, identity: Identity
) -> Response:
    data = await read_message(request, identity, bytes_max=SMALL_BYTES_MAX)
    versioning = parse_versioning(data)
    await service.commit(service.lake.buckets.configuration(operation.bucket, versioning))
    return Response(200)


def parse_versioning(data: bytes) -> Versioning:
    root = parse(data, root="VersioningConfiguration")
    root.only("Status", "MfaDelete", "MFADelete")
    for name in ("MfaDelete", "MFADelete"):
        if root.optional(name) not in (None, "Disabled"):
            raise S3Error("NotImplemented", "MFA Delete is not implemented")
    versioning = _STATUSES.get(root.optional("Status") or "")
    if versioning is None:
        raise S3Error(
            "IllegalVersioningConfigurationException",
            "The versioning configuration specified in the request is invalid",
        )
    return versioning


VERBS: Final = (
    Verb(
        operation=GetBucketVersioning,
        place=Place("GET", Level.BUCKET, "versioning"),
        handle=get_bucket_versioning,
        action="s3:GetBucketVersioning",
        writes=False,
    ),
    Verb(
        operation=PutBucketVersioning,
        place=Place("PUT", Level.BUCKET, "versioning"),
        handle=put_bucket_versioning,
        action="s3:PutBucketVersioning",
        writes=True,
    ),
)
