"""Where this endpoint and `moto` are known to differ, and why: the written list.

Three kinds. What is `UNASKED` is not sent, since the two would go apart for good. `FIELDS` are left
out of answers that are else the same. `ANSWERS` are pairs of errors of one request that changes
nothing. Everything else must be the same.

Each stands with its reason: what AWS documents, or what was decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tests.s3.sides import Outcome, Sides
from tests.s3.steps import Step

NO_BUCKET: Final = (404, "NoSuchBucket")
NO_KEY: Final = (404, "NoSuchKey")
OK: Final = (200, "")
PARTIAL: Final = (206, "")
NO_VERSION: Final = (404, "NoSuchVersion")
NO_UPLOAD: Final = (404, "NoSuchUpload")
MALFORMED: Final = (400, "MalformedXML")
CHANGES_NOTHING: Final = (400, "InvalidRequest")
TOO_SMALL: Final = (400, "EntityTooSmall")
FAULT: Final = (500, "500")


class Unasked(NamedTuple):
    reason: str
    applies: Callable[[Step, Sides], bool]


class Field(NamedTuple):
    """Of an operation ("" is all), wherever it stands in the answer; with a dot only at its top."""

    operation: str
    name: str
    reason: str
    applies: Callable[[Step], bool] = lambda _step: True
    value: Any = None  # if it is given, only this one


class Answer(NamedTuple):
    """Of an operation; `needs` are arguments that are given."""

    operation: str
    ours: tuple[int, str]
    theirs: tuple[int, str]
    reason: str
    needs: frozenset[str] = frozenset()


def _deletes_nothing(step: Step, sides: Sides) -> bool:
    if step.operation == "delete_object" and "VersionId" not in step.arguments:
        bucket, key = sides.about(step)
        return sides.is_versioned(bucket) and not sides.has_versions(bucket, key)
    if step.operation == "delete_objects":
        bucket, _ = sides.about(step)
        names = [one["Key"] for one in step.arguments["Delete"]["Objects"]]
        return sides.is_versioned(bucket) and not all(
            sides.has_versions(bucket, key) for key in names
        )
    return False


def _lists_no_versions(step: Step, sides: Sides) -> bool:
    return step.operation == "list_object_versions" and not sides.is_versioned(sides.about(step)[0])


def _deletes_what_may_be_empty(step: Step, sides: Sides) -> bool:
    return step.operation == "delete_bucket" and sides.has_remains(sides.about(step)[0])


def _completes_what_is_gone(step: Step, sides: Sides) -> bool:
    return step.operation == "complete_multipart_upload" and not sides.has_upload(step)


def _deletes_a_version_of_none(step: Step, sides: Sides) -> bool:
    if step.operation != "delete_object" or "VersionId" not in step.arguments:
        return False
    return not sides.is_versioned(sides.about(step)[0])


def _copies_parts(step: Step, sides: Sides) -> bool:
    if step.operation != "copy_object":
        return False
    source = sides.source_of(step)
    return "-" in source.get("ETag", "")


def _copies_beyond_the_end(step: Step, sides: Sides) -> bool:
    asked = step.arguments.get("CopySourceRange")
    if asked is None:
        return False
    size: int = sides.source_of(step).get("ContentLength", 0)
    return int(asked.rpartition("-")[2]) >= size


def _reads_a_part_by_its_number(step: Step, sides: Sides) -> bool:
    return "PartNumber" in step.arguments and sides.is_of_parts(step)


def _asks_twice(step: Step, _sides: Sides) -> bool:
    return {"PartNumber", "Range"} <= step.arguments.keys()


def _groups_behind_a_marker(step: Step, _sides: Sides) -> bool:
    named = step.arguments.keys()
    return "Delimiter" in named and bool({"Marker", "StartAfter"} & named)


def _groups_what_is_deleted(step: Step, sides: Sides) -> bool:
    is_listing = step.operation in ("list_objects", "list_objects_v2")
    return is_listing and "Delimiter" in step.arguments and sides.has_remains(sides.about(step)[0])


def _groups_a_page(step: Step, _sides: Sides) -> bool:
    named = step.arguments.keys()
    is_listing = step.operation in ("list_objects", "list_object_versions")
    return is_listing and {"Delimiter", "MaxKeys"} <= named


UNASKED: Final = (
    Unasked(
        "a copy of an object of parts keeps its ETag here, since it shares its chunks and nothing "
        "is read; AWS and moto tell the MD5 of the copy",
        _copies_parts,
    ),
    Unasked(
        "AWS refuses a range to be copied that ends behind the source; moto copies what is there",
        _copies_beyond_the_end,
    ),
    Unasked(
        "the parts of an object are counted here; moto keeps the numbers they were put under",
        _reads_a_part_by_its_number,
    ),
    Unasked("AWS refuses a part and a range at once; moto takes one of them", _asks_twice),
    Unasked(
        "moto lists common prefixes that stand before the marker; AWS does not",
        _groups_behind_a_marker,
    ),
    Unasked(
        "moto lists common prefixes of keys that are deleted; AWS does not",
        _groups_what_is_deleted,
    ),
    Unasked(
        "moto does not count common prefixes among what is on a page; AWS does, by name",
        _groups_a_page,
    ),
    Unasked(
        "moto deletes the object of a bucket without versions, whatever version is to be deleted",
        _deletes_a_version_of_none,
    ),
    Unasked(
        "moto may answer the completion of an upload that is gone as if it were there",
        _completes_what_is_gone,
    ),
    Unasked(
        "moto makes no delete marker for a key that never was there; AWS does",
        _deletes_nothing,
    ),
    Unasked(
        "a bucket that never was versioned lists no versions here, as its specification says; "
        "AWS and moto list them as null",
        _lists_no_versions,
    ),
    Unasked(
        "delete markers do not keep a bucket from being deleted here, uploads do; "
        "with moto it is the other way round",
        _deletes_what_may_be_empty,
    ),
)
"""Besides, `steps` does not draw what moto does not have: buckets whose versioning is suspended (it
forgets their old versions), most conditions of a copy, markers of a listing of versions or parts,
and parts in the wrong order (it may take them)."""

FIELDS: Final = (
    Field("", "ChecksumType", "moto does not tell the type of most checksums"),
    Field("", "ChecksumCRC64NVME", "AWS adds one where none is given; moto does not"),
    Field("", "EncodingType", "moto does not say it of versions and uploads"),
    Field("list_buckets", "BucketRegion", "moto does not tell it"),
    Field("list_objects", "Marker", "moto does not repeat it"),
    Field("list_objects_v2", "StartAfter", "moto repeats it with + as a space"),
    Field("list_objects", ".Prefix", "AWS encodes it, and boto3 does not decode it again"),
    Field("list_parts", "NextPartNumberMarker", "moto tells it also where nothing follows"),
    Field("list_parts", "ChecksumCRC32", "moto does not tell it of parts"),
    Field("list_multipart_uploads", ".Prefix", "moto does not repeat it"),
    Field("list_multipart_uploads", "MaxUploads", "moto says 1000 whatever was asked for"),
    Field(
        "complete_multipart_upload",
        "VersionId",
        "AWS tells none in a bucket without versions; moto says null",
        value="null",
    ),
    *(
        Field(
            operation,
            name,
            "AWS tells null of an object from before its bucket was versioned; moto nothing",
            value="null",
        )
        for operation in ("get_object", "head_object", "copy_object")
        for name in ("VersionId", "CopySourceVersionId")
    ),
    *(
        Field(
            operation,
            "ChecksumCRC32",
            "it is of the whole object, and so is not told of a part of it here",
            lambda step: bool({"Range", "PartNumber"} & step.arguments.keys()),
        )
        for operation in ("get_object", "head_object")
    ),
    Field("upload_part_copy", "CopySourceVersionId", "moto does not tell it"),
    Field(
        "list_objects", "NextMarker", "a key, here also without a delimiter; moto makes up a token"
    ),
    Field("list_object_versions", "NextKeyMarker", "moto tells the first of the next page"),
    Field("list_object_versions", "NextVersionIdMarker", "as above"),
    Field(
        "delete_object",
        "DeleteMarker",
        "AWS says that what was deleted was a delete marker; moto only if one was below it",
        lambda step: "VersionId" in step.arguments,
    ),
    Field("list_objects_v2", "ChecksumAlgorithm", "not told in listings here"),
    Field(
        "delete_object",
        "VersionId",
        "AWS repeats the version that was to be deleted; moto only if there was one",
        lambda step: "VersionId" in step.arguments,
    ),
    Field(
        "delete_objects",
        "Deleted",
        "AWS tells only errors if it is to be quiet; moto does not mind",
        lambda step: bool(step.arguments["Delete"]["Quiet"]),
    ),
)

ANSWERS: Final = (
    Answer("upload_part", NO_UPLOAD, FAULT, "moto fails where it knows no such upload"),
    Answer("complete_multipart_upload", NO_UPLOAD, FAULT, "moto fails as above"),
    Answer("complete_multipart_upload", MALFORMED, FAULT, "moto fails as above"),
    Answer(
        "complete_multipart_upload",
        MALFORMED,
        NO_BUCKET,
        "both are so: the document is empty, and the bucket is not there",
    ),
    Answer("complete_multipart_upload", (400, "InvalidPart"), TOO_SMALL, "both are so"),
    Answer("upload_part_copy", NO_UPLOAD, FAULT, "moto fails as above"),
    Answer("upload_part_copy", (400, "InvalidArgument"), FAULT, "moto fails as above"),
    Answer("upload_part_copy", NO_KEY, (404, "404"), "moto tells no code"),
    Answer("upload_part_copy", NO_VERSION, (404, "404"), "moto tells no code"),
    Answer("upload_part_copy", CHANGES_NOTHING, (404, "404"), "a delete marker is no source"),
    Answer("copy_object", CHANGES_NOTHING, NO_VERSION, "a delete marker is no source"),
    Answer(
        "get_object", (400, "InvalidPart"), (416, "416"), "a part that is not there is no range"
    ),
    Answer("head_object", (400, "400"), (416, "416"), "as above"),
    Answer("get_object", (405, "MethodNotAllowed"), NO_VERSION, "a delete marker has no GET"),
    Answer("head_object", (405, "405"), (404, "404"), "as above"),
    *(
        Answer(
            operation,
            OK,
            (412, code),
            "If-Match goes before If-Unmodified-Since, as AWS documents it",
            frozenset({"IfMatch", "IfUnmodifiedSince"}),
        )
        for operation, code in (("get_object", "PreconditionFailed"), ("head_object", "412"))
    ),
    *(
        Answer(operation, ours, theirs, reason, frozenset(needs))
        for operation, code in (("get_object", "InvalidRange"), ("head_object", "416"))
        for ours, theirs, reason, needs in (
            ((416, code), OK, "an empty object has no last bytes, as with AWS", {"Range"}),
            (OK, PARTIAL, "an empty object has no part that could be partial", {"PartNumber"}),
            (
                OK,
                (304, "304"),
                "If-None-Match goes before If-Modified-Since, as RFC 9110 has it",
                {"IfNoneMatch", "IfModifiedSince"},
            ),
        )
    ),
    Answer("head_object", (404, "404"), FAULT, "moto fails where nothing is there"),
    Answer("head_object", (405, "405"), FAULT, "moto fails where a delete marker is"),
    Answer("get_object", NO_KEY, FAULT, "moto fails as above"),
    Answer("get_object", (405, "MethodNotAllowed"), FAULT, "moto fails as above"),
    Answer("head_object", (404, "404"), (400, "400"), "moto takes ids for malformed that are not"),
    Answer("copy_object", (412, "PreconditionFailed"), NO_BUCKET, "both are so, as below"),
    Answer("copy_object", NO_VERSION, NO_BUCKET, "both are so, as below"),
    Answer("copy_object", CHANGES_NOTHING, (412, "PreconditionFailed"), "both are so, as below"),
    Answer("copy_object", CHANGES_NOTHING, NO_KEY, "both are so: a copy onto itself of nothing"),
    Answer("copy_object", CHANGES_NOTHING, NO_BUCKET, "as above"),
    Answer("copy_object", NO_KEY, NO_BUCKET, "both are so: the source, and the other bucket"),
)


def is_asked(step: Step, sides: Sides) -> bool:
    return not any(one.applies(step, sides) for one in UNASKED)


def compared(step: Step, ours: Outcome, theirs: Outcome) -> tuple[Outcome, Outcome]:
    """Both, without what is known to be different."""
    for answer in ANSWERS:
        known = (answer.operation, answer.ours, answer.theirs)
        asked = (step.operation, ours[:2], theirs[:2])
        if known == asked and answer.needs <= step.arguments.keys():
            return ours, ours
    return _without(step, ours), _without(step, _in_order(theirs))


def _in_order(theirs: Outcome) -> Outcome:
    """By name, as AWS lists them; moto lists in the order in which they were made."""
    fields = dict(theirs.fields)
    for name, of in (("Buckets", "Name"), ("Uploads", "Key")):
        if name in fields:
            fields[name] = sorted(fields[name], key=itemgetter(of))
    return theirs._replace(fields=fields)


def _without(step: Step, outcome: Outcome) -> Outcome:
    dropped = {
        one.name: one.value
        for one in FIELDS
        if one.operation in ("", step.operation) and one.applies(step)
    }
    return outcome._replace(fields=_left(outcome.fields, dropped))


def _left(value: Any, dropped: Mapping[str, Any], *, at: str = ".") -> Any:
    """Without them, and without what is empty: moto leaves empty elements out."""
    if isinstance(value, list):
        return [_left(one, dropped, at="") for one in value]
    if not isinstance(value, Mapping):
        return value
    found = {}
    for name, inner in value.items():
        known = [dropped[one] for one in (name, at + name) if one in dropped]
        if inner != "" and not any(one in (None, inner) for one in known):
            found[name] = _left(inner, dropped, at="")
    return found
