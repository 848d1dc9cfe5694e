"""What s3fs does, run by `test_s3fs` in an environment of its own: see `tests.clients.steps`.

s3fs is built on aiobotocore, which wants an older botocore than boto3 has.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

import fsspec  # type: ignore[import-untyped,import-not-found,unused-ignore]
import s3fs  # type: ignore[import-not-found,unused-ignore]

MIB = 2**20


def body(size: int) -> bytes:
    return Random(0).randbytes(size)


def names_in(files: Any, bucket: str) -> list[str]:
    return sorted(str(entry)[len(bucket) + 1 :] for entry in files.find(bucket))


def step_a_file_is_written_and_read_anywhere(files: Any, bucket: str) -> None:
    data = body(100_000)
    files.pipe_file(f"{bucket}/a b/ü+", data)
    assert files.cat_file(f"{bucket}/a b/ü+") == data
    assert files.cat_file(f"{bucket}/a b/ü+", start=10, end=20) == data[10:20]
    assert files.head(f"{bucket}/a b/ü+", 7) == data[:7]
    assert files.tail(f"{bucket}/a b/ü+", 7) == data[-7:]
    with files.open(f"{bucket}/a b/ü+", "rb", block_size=1000) as file:
        file.seek(-100, 2)
        assert file.read(50) == data[-100:-50]
    assert files.info(f"{bucket}/a b/ü+")["size"] == len(data)
    assert len(files.checksum(f"{bucket}/a b/ü+").to_bytes(16, "big")) == 16


def step_text_is_written_and_read_by_lines(files: Any, bucket: str) -> None:
    with files.open(f"{bucket}/text", "w", encoding="utf-8") as file:
        file.write("erste Zeile\nzweite ü\n")
    with files.open(f"{bucket}/text", "r", encoding="utf-8") as file:
        assert file.readlines() == ["erste Zeile\n", "zweite ü\n"]


def step_a_large_file_goes_in_parts(files: Any, bucket: str) -> None:
    data = body(11 * MIB)
    with files.open(f"{bucket}/large", "wb", block_size=5 * MIB) as file:
        for start in range(0, len(data), MIB):
            file.write(data[start : start + MIB])
    assert "-" in files.info(f"{bucket}/large")["ETag"]
    assert files.cat_file(f"{bucket}/large") == data
    files.copy(f"{bucket}/large", f"{bucket}/copy")
    assert (
        files.cat_file(f"{bucket}/copy", start=6 * MIB, end=6 * MIB + 10)
        == (data[6 * MIB : 6 * MIB + 10])
    )


def step_what_was_given_comes_back(files: Any, bucket: str) -> None:
    path = f"{bucket}/key"
    with files.open(path, "wb", Metadata={"colour": "blue"}) as file:
        file.write(b"x")
    assert files.metadata(path)["colour"] == "blue"
    files.setxattr(path, copy_kwargs={"ContentType": "a/b"}, shape="round")
    assert files.getxattr(path, "shape") == "round"
    assert files.info(path, refresh=True)["ContentType"] == "a/b"
    assert files.cat_file(path) == b"x"


def step_folders_are_put_and_got(files: Any, bucket: str) -> None:
    here = Path("folder/deep")
    here.mkdir(parents=True, exist_ok=True)
    for name in ("a", "b b", "ü+", "d%2F"):
        (here / name).write_text(name)
    files.put("folder", bucket, recursive=True)
    assert names_in(files, bucket) == sorted(f"folder/deep/{n}" for n in ("a", "b b", "ü+", "d%2F"))
    files.get(f"{bucket}/folder", f"back-{bucket}", recursive=True)
    back = Path(f"back-{bucket}")
    assert sorted(path.read_text() for path in back.rglob("*") if path.is_file()) == sorted(
        ("a", "b b", "ü+", "d%2F")
    )


def step_listings_have_folders_and_globs(files: Any, bucket: str) -> None:
    files.pipe({f"{bucket}/{name}": b"12" for name in ("a/1", "a/2.csv", "b/1", "c")})
    assert sorted(files.ls(bucket)) == [f"{bucket}/{name}" for name in ("a", "b", "c")]
    assert files.glob(f"{bucket}/*/*.csv") == [f"{bucket}/a/2.csv"]
    assert files.glob(f"{bucket}/**/1") == [f"{bucket}/a/1", f"{bucket}/b/1"]
    assert files.du(bucket) == 8
    assert files.isdir(f"{bucket}/a")
    assert not files.exists(f"{bucket}/none")
    walked = list(files.walk(bucket))
    assert (walked[0][1], walked[0][2]) == (["a", "b"], ["c"])


def step_copies_moves_and_removes(files: Any, bucket: str) -> None:
    files.pipe({f"{bucket}/{number:02}": b"x" for number in range(30)})
    files.cp_file(f"{bucket}/00", f"{bucket}/copy")
    files.mv(f"{bucket}/01", f"{bucket}/moved")
    files.rm(files.glob(f"{bucket}/[0-2]?"))
    assert names_in(files, bucket) == ["copy", "moved"]
    files.rm_file(f"{bucket}/copy")
    files.rm(f"{bucket}/moved")
    assert names_in(files, bucket) == []


def step_only_one_creates(files: Any, bucket: str) -> None:
    files.pipe_file(f"{bucket}/key", b"1", mode="create")
    try:
        files.pipe_file(f"{bucket}/key", b"2", mode="create")
    except OSError:
        pass
    else:
        raise AssertionError("the second one created it too")
    assert files.cat_file(f"{bucket}/key") == b"1"


def step_a_signed_url_needs_no_key(files: Any, bucket: str) -> None:
    """Like boto3, it has to be told: where no region is named, it presigns by version 2."""
    files.pipe_file(f"{bucket}/a b+", b"shared")
    signing = connect(config_kwargs={"signature_version": "s3v4"})
    with urllib.request.urlopen(signing.sign(f"{bucket}/a b+", expiration=60)) as answer:  # noqa: S310
        assert answer.read() == b"shared"


def step_fsspec_finds_it_by_its_address(files: Any, bucket: str) -> None:
    options = {"endpoint_url": os.environ["ENDPOINT"]}
    with fsspec.open(f"s3://{bucket}/a.txt.gz", "wt", compression="infer", **options) as file:
        file.write("packed")
    assert files.cat_file(f"{bucket}/a.txt.gz")[:2] == b"\x1f\x8b"
    with fsspec.open(f"s3://{bucket}/a.txt.gz", "rt", compression="infer", **options) as file:
        assert file.read() == "packed"
    cached = fsspec.open(f"simplecache::s3://{bucket}/a.txt.gz", s3=options)
    with cached as file:
        assert file.read()[:2] == b"\x1f\x8b"


def step_listings_turn_pages(files: Any, many: str, names: list[str]) -> None:
    assert names_in(files, many) == names
    folders = [name.partition("/")[0] for name in names]
    assert sorted(files.ls(many)) == [f"{many}/{folder}" for folder in folders]


def step_hostile_names_round_trip(files: Any, bucket: str, hostile: list[str]) -> None:
    for name in hostile:
        files.pipe_file(f"{bucket}/{name}", name.encode())
    assert names_in(files, bucket) == sorted(hostile)
    for name in hostile:
        assert files.cat_file(f"{bucket}/{name}") == name.encode(), name
        files.cp_file(f"{bucket}/{name}", f"{bucket}/C{name[1:]}")
        assert files.cat_file(f"{bucket}/C{name[1:]}") == name.encode(), name
        files.rm_file(f"{bucket}/{name}")
    assert names_in(files, bucket) == sorted(f"C{name[1:]}" for name in hostile)


def connect(**settings: Any) -> Any:
    """As it comes: the key is in the environment."""
    return s3fs.S3FileSystem(
        endpoint_url=os.environ["ENDPOINT"], use_listings_cache=False, **settings
    )


def main() -> None:
    files = connect()
    for line in sys.stdin:
        given = json.loads(line)
        failed = ""
        try:
            globals()[given.pop("step")](files, **given)
        except Exception:  # noqa: BLE001
            failed = traceback.format_exc()
        print(json.dumps({"failed": failed}), flush=True)


if __name__ == "__main__":
    main()
