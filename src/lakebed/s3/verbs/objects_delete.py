"""DeleteObjects: `POST /bucket?delete`, for up to 1,000 objects in one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from lakebed.base.errors import LakebedError
from lakebed.base.units import MIB
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.conditions import etag_condition
from lakebed.s3.errors import XML, S3Error, to_s3
from lakebed.s3.request_document import read_message
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnBucket, Place, Verb
from lakebed.s3.xml_parser import Node, malformed, parse
from lakebed.s3.xml_text import document, element
from lakebed.seglake.change import Change
from lakebed.seglake.model import Deleted, ObjectToDelete
from lakebed.seglake.objects import DELETED_AT_ONCE_MAX

DELETE_BYTES_MAX: Final = 8 * MIB  # 1,000 keys of 1,024 characters, each as an XML reference


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObjects(OnBucket): ...


class Deletion(NamedTuple):
    """The parsed body of a DeleteObjects request."""

    objects: list[ObjectToDelete]
    is_quiet: bool


async def delete_objects(
    service: Service, operation: DeleteObjects, request: Request, identity: Identity
) -> Response:
    """Deletes each object independently, and reports the error of each delete that fails."""
    data = await read_message(request, identity, bytes_max=DELETE_BYTES_MAX, needs_digest=True)
    deletion, changes = await service.run(partial(_prepared, service, operation.bucket, data))
    results = await service.commit_each(changes)
    failures = (result for result in results if isinstance(result, LakebedError))
    service.failures.note_in_body(failures, request)
    body = await service.run(lambda: _document(deletion, results))
    return Response(200, [XML], body)


def parse_deletion(data: bytes) -> Deletion:
    root = parse(data, root="Delete", bytes_max=DELETE_BYTES_MAX)
    root.only("Object", "Quiet")
    objects = [_object_to_delete(node) for node in root.all("Object")]
    if not 1 <= len(objects) <= DELETED_AT_ONCE_MAX:
        raise malformed(
            f"the request lists {len(objects)} objects, but must list 1 to {DELETED_AT_ONCE_MAX}"
        )
    return Deletion(objects, is_quiet=_is_true(root.optional("Quiet")))


def _object_to_delete(node: Node) -> ObjectToDelete:
    node.only("Key", "VersionId", "ETag", "LastModifiedTime", "Size")
    if node.optional("LastModifiedTime") is not None or node.optional("Size") is not None:
        raise S3Error(
            "NotImplemented",
            "Conditional deletion by LastModifiedTime or Size is not implemented",
        )
    key = node.optional("Key")
    if not key:
        raise malformed("each Object to delete needs a Key")
    condition = etag_condition(node.optional("ETag"))
    return ObjectToDelete(key, node.optional("VersionId") or None, condition)


def _is_true(text: str | None) -> bool:
    if text is None:
        return False
    if text.strip().lower() not in ("true", "false"):
        raise malformed("Quiet must be true or false")
    return text.strip().lower() == "true"


def _prepared(
    service: Service, bucket: str, data: bytes
) -> tuple[Deletion, Sequence[Change[Deleted] | LakebedError]]:
    deletion = parse_deletion(data)
    return deletion, service.lake.objects.deletions(bucket, deletion.objects)


def _document(deletion: Deletion, results: Iterable[Deleted | LakebedError]) -> bytes:
    return document("DeleteResult", _rows(deletion, results))


def _rows(deletion: Deletion, results: Iterable[Deleted | LakebedError]) -> Iterator[str]:
    """Yields an XML element per result; successes are left out if `Quiet` is true."""
    for target, result in zip(deletion.objects, results, strict=True):
        if isinstance(result, LakebedError):
            yield _error(target, to_s3(result))
        elif not deletion.is_quiet:
            yield _deleted(result, requested_id=target.version_id)


def _error(target: ObjectToDelete, error: S3Error) -> str:
    version = "" if target.version_id is None else element("VersionId", target.version_id)
    code, message = element("Code", error.code), element("Message", str(error))
    return f"<Error>{element('Key', target.key)}{version}{code}{message}</Error>"


def _deleted(deleted: Deleted, *, requested_id: str | None) -> str:
    parts = ["<Deleted>", element("Key", deleted.key)]
    if requested_id is not None:
        parts.append(element("VersionId", requested_id))
    if deleted.is_marker:
        parts.append("<DeleteMarker>true</DeleteMarker>")
        parts.append(element("DeleteMarkerVersionId", deleted.version_id or ""))
    parts.append("</Deleted>")
    return "".join(parts)


VERBS: Final = (
    Verb(
        operation=DeleteObjects,
        place=Place("POST", Level.BUCKET, "delete"),
        handle=delete_objects,
        action="s3:DeleteObject",
        writes=True,
    ),
)
