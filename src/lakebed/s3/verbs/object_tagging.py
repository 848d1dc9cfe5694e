"""GetObjectTagging: `GET /bucket/key?tagging`. Objects in Lakebed never have tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML
from lakebed.s3.object_headers import shown_version
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnVersion, Place, Verb
from lakebed.s3.xml_text import document


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObjectTagging(OnVersion):
    """A request for the tags of an object. The response is always an empty tag set."""


def get_object_tagging(
    service: Service, operation: GetObjectTagging, _request: Request, _identity: Identity
) -> Response:
    """Responds with an empty tag set, not an error, because SDKs read the tags before large copies.

    Raises the errors of `Objects.head` if the object does not exist.
    """
    info = service.lake.objects.head(
        operation.bucket, operation.key, version_id=operation.version_id
    )
    headers = [XML]
    version_id = shown_version(service, info)
    if version_id is not None:
        headers.append(("x-amz-version-id", version_id))
    return Response(200, headers, document("Tagging", ["<TagSet></TagSet>"]))


VERBS: Final = (
    Verb(
        operation=GetObjectTagging,
        place=Place("GET", Level.OBJECT, "tagging"),
        handle=get_object_tagging,
        action="s3:GetObjectTagging",
        writes=False,
        parameters=frozenset({"versionId"}),
    ),
)
