"""Nodes that are started when they are first wanted, and boto3 for them."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import boto3  # type: ignore[import-untyped,unused-ignore]
import obstore
from awscrt.checksums import crc64nvme
from obstore.store import S3Store

from tests.s3.endpoint import Endpoint

S3Client = Any  # boto3 makes its clients at run time


class Many(NamedTuple):
    """A bucket with more than fits on one page, of keys and of folders."""

    bucket: str
    names: list[str]

    @property
    def folders(self) -> list[str]:
        return [name.partition("/")[0] + "/" for name in self.names]


class Nodes:
    """By their kind of versioning; all of them end together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[str, Endpoint] = {}
        self._many: dict[str, Many] = {}
        self._stack = ExitStack()

    def of_versioning(self, versioning: str, *, part_bytes_min: int) -> Endpoint:
        """The same node for all who ask for the same."""
        if versioning not in self._started:
            settings = {"default-versioning": versioning, "part-bytes-min": part_bytes_min}
            arguments = [f"--s3={name}={value}" for name, value in settings.items()]
            node = Endpoint(self._folder / versioning, *arguments)
            self._started[versioning] = self._stack.enter_context(node)
        return self._started[versioning]

    def many(self, node: Endpoint) -> Many:
        """Made once for every node."""
        if node.url not in self._many:
            many = Many("many", [f"folder {number:04}/file" for number in range(1050)])
            client = s3_client(node)
            client.create_bucket(Bucket=many.bucket)
            client.close()
            asyncio.run(_write_all(node, many))
            self._many[node.url] = many
        return self._many[node.url]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def s3_client(endpoint: Endpoint, *, url: str = "", **settings: Any) -> S3Client:
    """boto3 as it comes: where the endpoint is and who asks, and nothing else."""
    return boto3.client(
        "s3",
        endpoint_url=url or endpoint.url,
        aws_access_key_id=endpoint.access_key,
        aws_secret_access_key=endpoint.secret_key,
        **settings,
    )


def s3_store(endpoint: Endpoint, bucket: str, **settings: Any) -> S3Store:
    """obstore as it comes."""
    return S3Store(
        bucket,
        endpoint=endpoint.url,
        access_key_id=endpoint.access_key,
        secret_access_key=endpoint.secret_key,
        client_options={"allow_http": True},
        **settings,
    )


def check_sum(s3: S3Client, bucket: str, name: str, data: bytes) -> None:
    """Where the client gave no checksum, the node has computed the one of the whole."""
    head = s3.head_object(Bucket=bucket, Key=name, ChecksumMode="ENABLED")
    expected = crc64nvme(data).to_bytes(8, "big")
    assert head["ChecksumType"] == "FULL_OBJECT"
    assert head["ChecksumCRC64NVME"] == b64encode(expected).decode()


async def _write_all(node: Endpoint, many: Many) -> None:
    store = s3_store(node, many.bucket)
    gate = asyncio.Semaphore(32)

    async def write(name: str) -> None:
        async with gate:
            await obstore.put_async(store, name, b"")

    await asyncio.gather(*map(write, many.names))
