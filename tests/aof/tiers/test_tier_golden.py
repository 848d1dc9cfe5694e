"""Files of version 1, written once and never again: they stay readable."""

from __future__ import annotations

from pathlib import Path

from lakebed.aof.tiers.folder_object import FolderObject, decode_trailer, encode_trailer
from lakebed.aof.tiers.ranges import BytesSource, crc64_of
from lakebed.aof.tiers.warm_file import decompress_to
from tests.aof.tiers.samples import FOLDER, content, disk_with

GOLDEN = Path(__file__).parents[2] / "golden"
SEGMENT = GOLDEN / "aof2" / "v2" / "sealed.seg"
WARM = GOLDEN / "tiers" / "v1" / "sealed.zst"
OBJECT = GOLDEN / "tiers" / "v1" / "object.bin"

BODY = b"an object's bytes\n"
METADATA = {"crc64": "0123456789abcdef", "record-count": "5", "note": 'a "quoted" word'}


def test_a_warm_file_of_version_1_is_restored() -> None:
    disk = disk_with(b"")
    decompress_to(BytesSource(WARM.read_bytes()), disk, f"{FOLDER}/b.seg")
    assert content(disk, f"{FOLDER}/b.seg") == SEGMENT.read_bytes()


def test_an_object_of_version_1_is_read() -> None:
    data = OBJECT.read_bytes()
    found = decode_trailer(data, path="object", file_bytes=len(data))
    assert (found.size, found.metadata) == (len(BODY), METADATA)
    assert data.startswith(BODY)


def test_the_same_object_is_written_today() -> None:
    found = FolderObject(len(BODY), crc64_of(BytesSource(BODY)), METADATA)
    assert BODY + encode_trailer(found) == OBJECT.read_bytes()
