"""GetObjectAttributes: `GET /bucket/key?attributes`.

As on AWS, the ETag has no quotes, `ObjectParts` is left out if the object was not uploaded in
parts, and the parts are listed only if the object's checksum is composite. The store keeps the
sizes of an object's parts but not their checksums, so listed parts have no checksum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.conditions import read_condition
from lakebed.s3.errors import XML, invalid_argument
from lakebed.s3.object_headers import http_date, marker_refusal, shown_version
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnVersion, Place, Verb
from lakebed.s3.xml_text import STORAGE_CLASS, bool_text, checksum_elements, document, element
from lakebed.seglake.errors import MethodNotAllowed
from lakebed.seglake.model import ObjectInfo
from lakebed.seglake.multipart import LISTED_MAX

_ATTRIBUTES: Final = "x-amz-object-attributes"
_MAX_PARTS: Final = "x-amz-max-parts"
_MARKER: Final = "x-amz-part-number-marker"
_NAMES: Final = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})
_DIGITS_MAX: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObjectAttributes(OnVersion):
    """A request for the attributes of an object, such as its size, checksum and parts."""


class _Page(NamedTuple):
    """The parts to list: at most `max_parts`, starting after part number `marker`."""

    marker: int
    max_parts: int


def get_object_attributes(
    service: Service, operation: GetObjectAttributes, request: Request, _identity: Identity
) -> Response:
    requested = request.headers
    names, page = _requested_names(requested), _requested_page(requested)
    try:
        info = service.lake.objects.head(
            operation.bucket, operation.key, version_id=operation.version_id
        )
    except MethodNotAllowed as error:
        raise marker_refusal(error) from error
    condition = read_condition(requested)
    if condition is not None:
        condition.check(etag=info.etag, modified_ms=info.modified_ms)
    headers = [XML, ("Last-Modified", http_date(info.modified_ms))]
    version_id = shown_version(service, info)
    if version_id is not None:
        headers.append(("x-amz-version-id", version_id))
    return Response(200, headers, _document(info, names, page))


def _requested_names(headers: Mapping[str, str]) -> frozenset[str]:
    names = [name.strip() for name in headers.get(_ATTRIBUTES, "").split(",")]
    for name in names:
        if name not in _NAMES:
            raise invalid_argument(
                "Invalid attribute name specified.", name=_ATTRIBUTES, value=name
            )
    return frozenset(names)


def _requested_page(headers: Mapping[str, str]) -> _Page:
    """Returns the requested page of parts.

    An invalid `x-amz-max-parts` is ignored, as on AWS. An invalid marker is refused, because
    returning the first page again would make a client loop forever.
    """
    max_parts = _number(headers.get(_MAX_PARTS, "")) or LISTED_MAX
    marker_text = headers.get(_MARKER, "0")
    marker = _number(marker_text)
    if marker is None:
        raise invalid_argument(
            "A part number marker must be a number", name=_MARKER, value=marker_text
        )
    return _Page(marker, min(max_parts, LISTED_MAX))


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if is_number else None


def _document(info: ObjectInfo, names: frozenset[str], page: _Page) -> bytes:
    parts = []
    if "ETag" in names:
        parts.append(element("ETag", info.etag))
    if "Checksum" in names and info.checksums:
        parts += ["<Checksum>", *checksum_elements(info.checksums), "</Checksum>"]
    if "ObjectParts" in names and info.part_sizes:
        parts += ["<ObjectParts>", *_part_elements(info, page), "</ObjectParts>"]
    if "StorageClass" in names:
        parts.append(element("StorageClass", STORAGE_CLASS))
    if "ObjectSize" in names:
        parts.append(f"<ObjectSize>{info.size}</ObjectSize>")
    return document("GetObjectAttributesResponse", parts)


def _part_elements(info: ObjectInfo, page: _Page) -> list[str]:
    count = len(info.part_sizes)
    elements = [f"<PartsCount>{count}</PartsCount>"]
    if not any(checksum.is_composite for checksum in info.checksums):
        return elements
    sizes = info.part_sizes[page.marker : page.marker + page.max_parts]
    last = page.marker + len(sizes)
    elements += [
        f"<PartNumberMarker>{page.marker}</PartNumberMarker>",
        f"<NextPartNumberMarker>{last}</NextPartNumberMarker>",
        f"<MaxParts>{page.max_parts}</MaxParts>",
        f"<IsTruncated>{bool_text(last < count)}</IsTruncated>",
    ]
    elements += [
        f"<Part><PartNumber>{number}</PartNumber><Size>{size}</Size></Part>"
        for number, size in enumerate(sizes, start=page.marker + 1)
    ]
    return elements


VERBS: Final = (
    Verb(
        operation=GetObjectAttributes,
        place=Place("GET", Level.OBJECT, "attributes"),
        handle=get_object_attributes,
        action="s3:GetObjectAttributes",
        writes=False,
        parameters=frozenset({"versionId"}),
        headers=frozenset({_ATTRIBUTES, _MAX_PARTS, _MARKER}),
    ),
)
