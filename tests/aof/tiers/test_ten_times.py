"""A log ten times larger than its local tiers, with real files, real threads and a real S3 server:
written, and read back in full by its writer and by another process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.manager import AofManager
from lakebed.aof.tiers.config import SharedTierConfig, TierConfig
from lakebed.base.units import KIB, MIB

pytestmark = [pytest.mark.process]

SEGMENT_BYTES = 64 * KIB
TIER0_BYTES = 256 * KIB
TIER1_BYTES = 128 * KIB
RECORD_BYTES = 12_000
TOTAL_BYTES = 4 * MIB
CONFIG = AofConfig(
    segment_bytes=SEGMENT_BYTES,
    flush=FlushConfig(reserve_bytes=0, flush_ms=1),
    tiers=TierConfig(tiering_enabled=True, tier0_bytes_max=TIER0_BYTES),
)

READER = """
import hashlib, sys
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.reader import LogReader
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.services import TierServices
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk

root, url, endpoint = sys.argv[1:]
disk, runner = real_disk(), ThreadRunner()
config = SharedTierConfig(
    url=url, endpoint=endpoint, region="us-east-1",
    access_key_id="someone", secret_access_key="secret",
)
services = TierServices(root, disk=disk, runner=runner, config=config)
digest, count = hashlib.sha256(), 0
with ReadOnlyLog(root, "orders", disk=disk, runner=runner, services=services) as log:
    with LogReader(log) as reader:
        for record in reader.read():
            digest.update(record.payload)
            count += 1
runner.close()
print(count, digest.hexdigest())
"""


def test_a_log_ten_times_its_local_tiers_is_read_back_in_full(
    tmp_path: Path, s3_endpoint: str
) -> None:
    url = "s3://tier2/ten-times"
    shared = SharedTierConfig(
        tier0_bytes_max=TIER0_BYTES,
        tier1_bytes_max=TIER1_BYTES,
        url=url,
        endpoint=s3_endpoint,
        region="us-east-1",
        access_key_id="someone",
        secret_access_key="secret",  # noqa: S106
    )
    random, digest, count = Random(7), hashlib.sha256(), 0
    with AofManager(tmp_path, config=CONFIG, tier_config=shared) as manager:
        log = manager.open("orders")
        while count * RECORD_BYTES < TOTAL_BYTES:
            payload = random.randbytes(RECORD_BYTES)
            log.append_record_with_timeout(payload, 60)
            digest.update(payload)
            count += 1
            if count % 50 == 0:
                check_disk(tmp_path)
        log.flush()
        assert count * RECORD_BYTES >= 10 * (TIER0_BYTES + TIER1_BYTES)
        found = hashlib.sha256()
        for record in log.read():
            found.update(record.payload)
        assert found.digest() == digest.digest()
        check_disk(tmp_path)
        cold = [place for place in log.tiers.residency() if place.tiers == (2,)]
        assert len(cold) > 40, "most of it is in Tier 2 alone"
        assert read_elsewhere(tmp_path, url, s3_endpoint) == [str(count), digest.hexdigest()]
    assert read_elsewhere(tmp_path, url, s3_endpoint) == [str(count), digest.hexdigest()]


def check_disk(root: Path) -> None:
    """Tier 0, the warm files of what is in it, Tier 1, and what is being made at the moment."""
    used = 0
    for kind in ("segments", "warm"):
        folder = root / "aof" / "orders" / kind
        for path in folder.glob("*"):
            try:
                used += path.stat().st_blocks * 512 if path.is_file() else 0
            except FileNotFoundError:
                continue
    slack = TIER0_BYTES + 4 * SEGMENT_BYTES
    assert used <= TIER0_BYTES + TIER1_BYTES + slack


def read_elsewhere(root: Path, url: str, endpoint: str) -> list[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", READER, str(root), url, endpoint],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
