"""The node under load: `lakebed serve` with little of everything, so that all limits are met."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.config import Config

from lakebed.base.units import KIB, MIB
from lakebed.client.store import RemoteStore
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

BUCKET: Final = "load"
OBJECT_BYTES_MAX: Final = 8 * MIB
PART_BYTES_MIN: Final = 64 * KIB
MESSAGE_BYTES_MAX: Final = 256 * KIB
DRAIN_S: Final = 20

_SETTINGS: Final = f"""
[keratin]
segment_bytes = "1MiB"
retention_bytes = "8MiB"
message_bytes_max = {MESSAGE_BYTES_MAX}
open_segments_max = 4

[aof]
segment_bytes = "1MiB"

[aof_retention]
bytes_max = {24 * MIB}

[aof_tiers]
tiering_enabled = true
tier0_bytes_max = "8MiB"

[aof_tier2]
url = "tier2"
tier1_bytes_max = "4MiB"

[s3]
segment_bytes = "64MiB"
open_segments_max = 8
cache_bytes = "8MiB"
max_object_size = {OBJECT_BYTES_MAX}
part_bytes_min = {PART_BYTES_MIN}
default_versioning = "unversioned"

[node]
log_format = "json"
drain_s = {DRAIN_S}
"""


class Node(Endpoint):
    """With its settings and its log in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "node.log"
        root = folder / "root"
        root.mkdir()
        (root / "lakebed.toml").write_text(_SETTINGS)
        super().__init__(root, log=self.log)

    def connect(self, url: str = "", *, secret_key: str = SECRET_KEY) -> RemoteStore:
        url = url or self.http_url
        return RemoteStore.open(url, access_key=ACCESS_KEY, secret_key=secret_key)

    def s3(self, *, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY) -> Any:
        return s3_client(self.url, access_key=access_key, secret_key=secret_key)

    def events(self) -> Counter[tuple[str, str]]:
        """What its log tells, by level and event."""
        lines = self.log.read_text().splitlines()
        found = [json.loads(line) for line in lines]
        return Counter((str(one["level"]), str(one["event"])) for one in found)

    def verify(self) -> dict[str, Any]:
        """As an operator would, while nobody has the store open."""
        command = [sys.executable, "-m", "lakebed.cli", "--root", str(self.root), "--json"]
        done = subprocess.run([*command, "verify"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report


def s3_client(url: str, *, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY) -> Any:
    """It tries once: what fails is told."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}),
    )
