"""GetBucketLocation: `GET /bucket?location`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnBucket, Place, Verb
from lakebed.s3.xml_text import document, escaped

_FIRST_REGION: Final = "us-east-1"  # left empty in the document, as on AWS


@dataclass(frozen=True, kw_only=True, slots=True)
class GetBucketLocation(OnBucket): ...


def get_bucket_location(
    service: Service, operation: GetBucketLocation, _request: Request, _identity: Identity
) -> Response:
    service.lake.buckets.get(operation.bucket)
    region = service.config.region
    parts = [] if region == _FIRST_REGION else [escaped(region)]
    return Response(200, [XML], document("LocationConstraint", parts))


VERBS: Final = (
    Verb(
        operation=GetBucketLocation,
        place=Place("GET", Level.BUCKET, "location"),
        handle=get_bucket_location,
        action="s3:GetBucketLocation",
        writes=False,
    ),
)
