"""Documents about uploads and copies, as botocore reads them."""

from __future__ import annotations

from lakebed.http.response import Response
from lakebed.s3.verbs import multipart_upload, object_copy, upload_parts
from lakebed.s3.xml_text import time_text
from lakebed.seglake.model import Algorithm, Checksum, Content, ObjectInfo, State
from lakebed.seglake.multipart import PartPage
from lakebed.seglake.upload_rows import PartInfo, UploadInfo
from tests.s3.botocore_answers import understood

KEY = "a & <b>\r"
MODIFIED_MS = 1_700_000_000_007
CHECKSUM = Checksum(Algorithm.CRC32, "AAAAAA==")
COMPOSITE = Checksum(Algorithm.SHA1, "abc=-2", is_composite=True)
UPLOAD = UploadInfo(
    upload_id="u",
    bucket="b",
    key=KEY,
    started_ms=0,
    content=Content(),
    algorithm=Algorithm.CRC32,
    is_composite=True,
)
PART = PartInfo(number=3, etag="e", size=7, modified_ms=MODIFIED_MS, checksums=(CHECKSUM,))
OBJECT = ObjectInfo(
    bucket="b",
    key=KEY,
    version_id="0" * 32,
    is_null=False,
    is_latest=True,
    state=State.ACTIVE,
    etag="e-2",
    size=7,
    modified_ms=MODIFIED_MS,
    content=Content(),
    checksums=(COMPOSITE,),
    part_sizes=(),
)


def test_a_time_has_milliseconds_and_is_in_utc() -> None:
    assert time_text(MODIFIED_MS) == "2023-11-14T22:13:20.007Z"
    assert time_text(0) == "1970-01-01T00:00:00.000Z"


def test_an_upload_that_began_is_named() -> None:
    found = understood(
        "CreateMultipartUpload", Response(200, [], multipart_upload.upload_document(UPLOAD))
    )
    assert (found["Bucket"], found["Key"], found["UploadId"]) == ("b", KEY, "u")


def test_an_object_that_was_put_together_is_told_with_its_checksum() -> None:
    body = multipart_upload.object_document(OBJECT, location="http://host/b/k")
    found = understood("CompleteMultipartUpload", Response(200, [], body))
    assert (found["Location"], found["Key"], found["ETag"]) == ("http://host/b/k", KEY, '"e-2"')
    assert (found["ChecksumSHA1"], found["ChecksumType"]) == ("abc=-2", "COMPOSITE")


def test_what_was_copied_is_told_with_its_time_and_checksum() -> None:
    copied = understood("CopyObject", Response(200, [], object_copy.object_document(OBJECT)))
    assert copied["CopyObjectResult"]["ETag"] == '"e-2"'
    assert copied["CopyObjectResult"]["LastModified"].microsecond == 7000
    assert copied["CopyObjectResult"]["ChecksumType"] == "COMPOSITE"
    part = understood("UploadPartCopy", Response(200, [], object_copy.part_document(PART)))
    assert part["CopyPartResult"]["ETag"] == '"e"'
    assert part["CopyPartResult"]["ChecksumCRC32"] == "AAAAAA=="


def test_parts_are_told_with_where_the_next_page_goes_on() -> None:
    body = upload_parts.parts_document(PartPage(UPLOAD, [PART], 3), marker=2, max_parts=1)
    found = understood("ListParts", Response(200, [], body))
    assert (found["Key"], found["MaxParts"], found["PartNumberMarker"]) == (KEY, 1, 2)
    assert (found["IsTruncated"], found["NextPartNumberMarker"]) == (True, 3)
    assert (found["ChecksumAlgorithm"], found["ChecksumType"]) == ("CRC32", "COMPOSITE")
    (part,) = found["Parts"]
    assert (part["PartNumber"], part["ETag"], part["Size"]) == (3, '"e"', 7)
    assert part["ChecksumCRC32"] == "AAAAAA=="
    last = upload_parts.parts_document(
        PartPage(UPLOAD, [], None), marker=3, max_parts=1, is_url_encoded=True
    )
    found = understood("ListParts", Response(200, [], last))
    assert (found["IsTruncated"], found["Key"]) == (False, "a%20%26%20%3Cb%3E%0D")
    assert "NextPartNumberMarker" not in found
