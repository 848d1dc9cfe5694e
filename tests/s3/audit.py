"""A ledger compared with what a server has: everything that was acknowledged, and nothing mixed.

What was not answered is looked up, and settled: from then on the ledger knows what it became.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import Any, NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

from botocore.exceptions import ClientError

from tests.s3.calls import NAMESPACE
from tests.s3.ledger import Content, Ledger, State, Story


class Listed(NamedTuple):
    """A version as it is listed."""

    version_id: str
    is_marker: bool
    is_latest: bool
    etag: str


class Audit:
    """Of one bucket."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self._versions = self._list_versions()
        self._objects = self._list_objects()
        self.reads = 0

    def run(self, ledger: Ledger) -> None:
        stories = [story for story in ledger.stories if story.bucket == self._bucket]
        known = {story.key for story in stories}
        assert set(self._objects) <= known, "an object that nobody put"
        for story in stories:
            if story.is_versioned:
                self._check_versions(story)
            self._check_current(story)
            self._check_upload(story)

    def _check_current(self, story: Story) -> None:
        found = self._read(story)
        possible = [state for state in story.possible if self._is(found, state)]
        assert possible, f"{story.key}: {found} is none of {story.possible}"
        assert (found is not None) == (story.key in self._objects), f"{story.key}: listed wrong"
        if found is not None:
            assert self._objects[story.key] == next(iter(found.etags))
        story.possible = [possible[-1]]
        story.unanswered.clear()

    def _check_versions(self, story: Story) -> None:
        listed = self._versions.pop(story.key, [])
        latest = [index for index, one in enumerate(listed) if one.is_latest]
        assert latest == [0][: len(listed)], f"{story.key}: these are the latest: {latest}"
        found = {one.version_id: one for one in reversed(listed)}  # the oldest first
        if story.may_be_gone is not None and story.may_be_gone not in found:
            del story.versions[story.may_be_gone]
        story.may_be_gone = None
        known = [version_id for version_id in found if version_id in story.versions]
        assert known == list(story.versions), f"{story.key}: {list(found)}, not {story.versions}"
        for version_id, one in found.items():
            content = None if one.is_marker else self._read(story, version_id)
            assert one.is_marker or (content is not None and one.etag in content.etags)
            if version_id in story.versions:
                assert self._is(content, story.versions[version_id]), f"{story.key}: {version_id}"
            else:
                states = [state for state in story.unanswered if self._is(content, state)]
                assert states, f"{story.key}: nobody wrote {version_id}: {content}"
                story.unanswered.remove(states[0])
                story.versions[version_id] = states[0]
        # One that was not answered came last, or not at all.
        story.possible = [list(story.versions.values())[-1] if story.versions else None]

    def _check_upload(self, story: Story) -> None:
        upload = story.upload
        if upload is None:
            return
        try:
            answer = self._client.list_parts(
                Bucket=story.bucket, Key=story.key, UploadId=upload.upload_id
            )
        except ClientError as error:
            assert _code(error) == "NoSuchUpload", error
            assert upload.may_be_complete, f"{story.key}: the upload {upload} is lost"
            current = story.current
            assert current is not None, f"{story.key}: neither an upload nor an object"
            assert current.turn == upload.turn
            story.upload = None
            return
        current = story.current
        assert current is None or current.turn != upload.turn, f"{story.key}: complete, and open"
        upload.may_be_complete = False
        found = {part["PartNumber"]: part["ETag"].strip('"') for part in answer.get("Parts", [])}
        if upload.maybe_part is not None and upload.maybe_part[0] in found:
            number, data = upload.maybe_part
            upload.parts[number], upload.maybe_part = data, None
        expected = {
            number: hashlib.md5(data, usedforsecurity=False).hexdigest()
            for number, data in upload.parts.items()
        }
        assert found == expected, f"{story.key}: parts of {upload.upload_id}"

    def _read(self, story: Story, version_id: str | None = None) -> Content | None:
        """All of it; None if it is not there."""
        named = {} if version_id is None else {"VersionId": version_id}
        self.reads += 1
        try:
            answer = self._client.get_object(Bucket=story.bucket, Key=story.key, **named)
        except ClientError as error:
            assert _code(error) == "NoSuchKey", error
            return None
        data = answer["Body"].read()
        assert len(data) == answer["ContentLength"]
        digest = hashlib.sha256(data).hexdigest()
        etag = answer["ETag"].strip('"')
        return Content(digest, frozenset({etag}), answer["Metadata"]["turn"])

    @staticmethod
    def _is(found: State, state: State) -> bool:
        """Its body, its ETag and its metadata, of one and the same change."""
        if found is None or state is None:
            return found is state
        return (
            found.sha256 == state.sha256 and found.turn == state.turn and found.etags <= state.etags
        )

    def _list_objects(self) -> dict[str, str]:
        found = {}
        for page in self._pages("list_objects_v2"):
            for one in page.get("Contents", []):
                assert one["Key"] not in found, f"{one['Key']} is listed twice"
                found[one["Key"]] = one["ETag"].strip('"')
        return found

    def _list_versions(self) -> dict[str, list[Listed]]:
        """In the order of the documents, which boto3 does not keep."""
        documents: list[bytes] = []

        def see(response_dict: dict[str, Any], **_: object) -> None:
            documents.append(response_dict["body"])

        events = self._client.meta.events
        events.register("before-parse.s3.ListObjectVersions", see)
        try:
            for _ in self._pages("list_object_versions"):
                pass
        finally:
            events.unregister("before-parse.s3.ListObjectVersions", see)
        found: dict[str, list[Listed]] = defaultdict(list)
        for body in documents:
            for one in ET.fromstring(body):  # noqa: S314 - of our own server
                if one.tag in (NAMESPACE + "Version", NAMESPACE + "DeleteMarker"):
                    found[unquote_plus(_text(one, "Key"))].append(_listed(one))
        return found

    def _pages(self, operation: str) -> Any:
        return self._client.get_paginator(operation).paginate(
            Bucket=self._bucket, PaginationConfig={"PageSize": 37}
        )


def _listed(one: ET.Element) -> Listed:
    return Listed(
        _text(one, "VersionId"),
        is_marker=one.tag == NAMESPACE + "DeleteMarker",
        is_latest=_text(one, "IsLatest") == "true",
        etag=_text(one, "ETag").strip('"'),
    )


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(NAMESPACE + name) or ""


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])
