"""Two servers that are asked the same, and what each of them answers, made comparable.

Only what a server makes up is made the same: ids (which become their number in the sequence),
dates, owners, and the prefix of the buckets of one sequence.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError

from tests.s3.steps import Parts, Source, Step, Upload, Version, Written

UNKNOWN_ID: Final = "00112233445566778899aabbccddeeff"
_OWNERS: Final = ("Owner", "Initiator")
_IDS: Final = ("VersionId", "UploadId", "DeleteMarkerVersionId", "CopySourceVersionId")
_MADE_UP: Final = ("NextContinuationToken", "NextVersionIdMarker", "NextUploadIdMarker")
_WRITES: Final = ("put_object", "copy_object", "complete_multipart_upload")


class Outcome(NamedTuple):
    """An answer: its status, the code of its error, and what it says."""

    status: int
    code: str
    fields: dict[str, Any]


@dataclass
class TheVersion:
    bucket: str
    key: str
    ids: tuple[str, ...]  # by side


@dataclass
class TheUpload:
    bucket: str
    key: str
    ids: tuple[str, ...]
    parts: dict[int, str] = field(default_factory=dict)  # ETags by number


class Sides:
    """`clients` are those of the servers; buckets are named so that each sequence has its own."""

    def __init__(self, clients: tuple[Any, Any], prefix: str) -> None:
        self._clients = clients
        self._prefix = prefix
        self._versions: list[TheVersion] = []
        self._uploads: list[TheUpload] = []
        self._written: list[tuple[str, str]] = []  # buckets and keys, in order
        self._tokens: list[dict[str, str]] = [{}, {}]  # by side: an id, and what it is called

    def ask(self, step: Step) -> tuple[Outcome, Outcome]:
        """Ours, and theirs."""
        answers = [
            self._call(client, step.operation, self._arguments(step, side))
            for side, client in enumerate(self._clients)
        ]
        self._note(step, answers)
        first, second = (self._outcome(answer, step, side) for side, answer in enumerate(answers))
        return first, second

    @staticmethod
    def _call(client: Any, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(client, operation)(**arguments)
        except ClientError as error:
            answer = dict(error.response)
        if hasattr(answer.get("Body"), "read"):
            answer["Body"] = answer["Body"].read()
        return answer

    # What is asked.

    def _arguments(self, step: Step, side: int) -> dict[str, Any]:
        found = dict(step.arguments)
        upload = self._upload_of(step)
        if upload is not None:
            found |= {"Bucket": upload.bucket, "Key": upload.key, "UploadId": upload.ids[side]}
        elif "UploadId" in found:
            found |= {"Bucket": "alpha", "Key": "a", "UploadId": UNKNOWN_ID}
        if isinstance(found.get("Key"), Written):
            found["Bucket"], found["Key"] = self._last_written(found["Key"])
        version = found.get("VersionId")
        if isinstance(version, Version):
            one = self._version(version)
            found["VersionId"] = UNKNOWN_ID if one is None else one.ids[side]
            if one is not None and version.goes_along:
                found |= {"Bucket": one.bucket, "Key": one.key}
        if "Bucket" in found:
            found["Bucket"] = self._prefix + found["Bucket"]
        if isinstance(found.get("CopySource"), Source):
            found["CopySource"] = self._source(found["CopySource"], side)
        if isinstance(found.get("MultipartUpload"), Parts):
            found["MultipartUpload"] = _parts(found["MultipartUpload"], upload)
        return found

    def about(self, step: Step) -> tuple[str, str]:
        """Bucket and key that a step is about, its references followed."""
        found = self._arguments(step, 0)
        return found.get("Bucket", "").removeprefix(self._prefix), found.get("Key", "")

    def is_versioned(self, bucket: str) -> bool:
        """By what is told here."""
        answer = self._call(
            self._clients[0], "get_bucket_versioning", {"Bucket": self._prefix + bucket}
        )
        return answer.get("Status") == "Enabled"

    def has_versions(self, bucket: str, key: str) -> bool:
        asked = {"Bucket": self._prefix + bucket, "Prefix": key}
        answer = self._call(self._clients[0], "list_object_versions", asked)
        listed = (*answer.get("Versions", ()), *answer.get("DeleteMarkers", ()))
        return any(one["Key"] == key for one in listed)

    def has_upload(self, step: Step) -> bool:
        """Whether the upload of a step is still there."""
        upload = self._upload_of(step)
        if upload is None:
            return False
        asked = {
            "Bucket": self._prefix + upload.bucket,
            "Key": upload.key,
            "UploadId": upload.ids[0],
        }
        return "Error" not in self._call(self._clients[0], "list_parts", asked)

    def source_of(self, step: Step) -> dict[str, Any]:
        """What is told here of the source of a copy."""
        return self._call(self._clients[0], "head_object", self._arguments(step, 0)["CopySource"])

    def is_of_parts(self, step: Step) -> bool:
        """Whether the object that a step reads was put in parts."""
        if step.operation not in ("get_object", "head_object"):
            return False
        named = self._arguments(step, 0)
        wanted = ("Bucket", "Key", "VersionId")
        asked = {name: value for name, value in named.items() if name in wanted}
        return "-" in self._call(self._clients[0], "head_object", asked).get("ETag", "")

    def has_remains(self, bucket: str) -> bool:
        """Delete markers, or uploads."""
        asked = {"Bucket": self._prefix + bucket}
        versions = self._call(self._clients[0], "list_object_versions", asked)
        uploads = self._call(self._clients[0], "list_multipart_uploads", asked)
        return bool(versions.get("DeleteMarkers") or uploads.get("Uploads"))

    def _last_written(self, written: Written) -> tuple[str, str]:
        if not self._written:
            return "alpha", "a"
        return self._written[-1 - written.number % len(self._written)]

    def _version(self, version: Version) -> TheVersion | None:
        return self._versions[version.number % len(self._versions)] if self._versions else None

    def _upload_of(self, step: Step) -> TheUpload | None:
        named = step.arguments.get("UploadId")
        if not isinstance(named, Upload) or not self._uploads:
            return None
        return self._uploads[-1 - named.number % len(self._uploads)]

    def _source(self, source: Source, side: int) -> dict[str, str]:
        bucket, key = source.bucket, source.key
        if isinstance(key, Written):
            bucket, key = self._last_written(key)
        found = {"Bucket": self._prefix + bucket, "Key": key}
        if source.version is not None:
            one = self._version(source.version)
            found["VersionId"] = UNKNOWN_ID if one is None else one.ids[side]
            if one is not None and source.version.goes_along:
                found |= {"Bucket": self._prefix + one.bucket, "Key": one.key}
        return found

    # What is answered.

    def _note(self, step: Step, answers: list[dict[str, Any]]) -> None:
        """Ids that were told by both."""
        arguments = self._arguments(step, 0)
        bucket = arguments.get("Bucket", "").removeprefix(self._prefix)
        if step.operation in _WRITES and "Error" not in answers[0]:
            written = bucket, arguments["Key"]
            self._written = [*(one for one in self._written if one != written), written]
        ids = tuple(answer.get("VersionId") for answer in answers)
        if step.operation not in ("get_object", "head_object") and all(ids):
            self._name(bucket, arguments["Key"], ids)
        if step.operation == "delete_objects":
            told = [
                {one["Key"]: one.get("DeleteMarkerVersionId") for one in answer.get("Deleted", [])}
                for answer in answers
            ]
            for key in told[0].keys() & told[1].keys():
                ids = tuple(side[key] for side in told)
                if all(ids):
                    self._name(bucket, key, ids)
        if step.operation == "create_multipart_upload" and all("UploadId" in a for a in answers):
            upload_ids = tuple(str(answer["UploadId"]) for answer in answers)
            for side, one in enumerate(upload_ids):
                self._tokens[side][one] = f"upload {len(self._uploads)}"
            self._uploads.append(TheUpload(bucket, arguments["Key"], upload_ids))
        upload = self._upload_of(step)
        if upload is not None and step.operation.startswith("upload_part"):
            told_etag = answers[0].get("ETag") or answers[0].get("CopyPartResult", {}).get("ETag")
            if told_etag:
                upload.parts[arguments["PartNumber"]] = told_etag

    def _name(self, bucket: str, key: str, ids: tuple[Any, ...]) -> None:
        if ids == ("null", "null"):
            known = any(
                one.ids == ids and one.bucket == bucket and one.key == key for one in self._versions
            )
            if not known:
                self._versions.append(TheVersion(bucket, key, ids))
            return
        if ids[0] in self._tokens[0]:
            return
        for side, one in enumerate(ids):
            self._tokens[side][one] = f"version {len(self._versions)}"
        self._versions.append(TheVersion(bucket, key, ids))

    def _outcome(self, answer: Mapping[str, Any], step: Step, side: int) -> Outcome:
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        code = answer.get("Error", {}).get("Code", "")
        fields = {
            name: self._made_same(name, value, side)
            for name, value in answer.items()
            if name not in ("ResponseMetadata", "Error", *_OWNERS)
        }
        if step.operation == "list_buckets":
            fields["Buckets"] = [
                one for one in fields["Buckets"] if one["Name"].startswith("bucket ")
            ]
        return Outcome(status, code, fields)

    def _made_same(self, name: str, value: Any, side: int) -> Any:
        if isinstance(value, Mapping):
            return {
                one: self._made_same(one, inner, side)
                for one, inner in value.items()
                if one not in _OWNERS
            }
        if isinstance(value, list):
            return [self._made_same(name, inner, side) for inner in value]
        if isinstance(value, dt.datetime):
            return "a date"
        if name in _IDS and value not in ("null", UNKNOWN_ID):
            return self._tokens[side].get(value, "an unknown id")
        if name in _MADE_UP:
            return bool(value)
        if name in ("Bucket", "Name", "Location") and isinstance(value, str):
            return value.replace(self._prefix, "bucket ").partition("://")[0]
        return value


def _parts(wanted: Parts, upload: TheUpload | None) -> dict[str, Any]:
    known = upload.parts if upload is not None else {}
    listed = [{"PartNumber": number, "ETag": known[number]} for number in sorted(known)]
    match wanted.wrong:
        case "etag" if listed:
            listed[-1]["ETag"] = f'"{UNKNOWN_ID}"'
        case "unknown":
            listed.append({"PartNumber": 9, "ETag": f'"{UNKNOWN_ID}"'})
    return {"Parts": listed}
