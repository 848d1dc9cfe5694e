"""`/healthz`, `/readyz` and `/metrics` of a node in another process."""

from __future__ import annotations

import shutil
import socket
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text

import lakebed
from lakebed.base.errors import NoSpace
from lakebed.base.units import TIB
from tests.node.test_metrics import SPECIFIED
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

pytestmark = pytest.mark.process

EVERYWHERE = "0.0.0.0"  # noqa: S104
OPEN = "application/openmetrics-text; version=1.0.0"
BASIC = "Basic " + b64encode(f"{ACCESS_KEY}:{SECRET_KEY}".encode()).decode()


def get(url: str, path: str, *, host: str = "", **headers: str) -> tuple[int, str]:
    place = urlsplit(url)
    connection = HTTPConnection(host or place.hostname or "", place.port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def another_address() -> str:
    """Of this machine, and no loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no other address")
        address: str = asking.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no other address")
    return address


def samples(families: dict[str, Metric], name: str) -> dict[tuple[str, ...], float]:
    found = [one for one in families[name].samples if not one.name.endswith("_created")]
    return {tuple(one.labels[key] for key in sorted(one.labels)): one.value for one in found}


def test_one_exporter_tells_all_engines_and_both_endpoints(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        assert get(endpoint.http_url, "/healthz") == (200, "ok\n")
        assert get(endpoint.http_url, "/readyz") == (200, "ready\n")
        s3 = boto3.client(
            "s3",
            endpoint_url=endpoint.url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )
        s3.create_bucket(Bucket="photos")
        s3.put_object(Bucket="photos", Key="one", Body=b"x" * 1000)
        s3.get_object(Bucket="photos", Key="one")["Body"].read()
        s3.close()
        with lakebed.connect(
            endpoint.http_url, access_key=ACCESS_KEY, secret_key=SECRET_KEY
        ) as store:
            log = store.log("orders")
            log.flush(log.append_record(b"figs"))
            topic = store.topic("events", partitions=2)
            topic.append_batch([b"a"], partition=1).result()
            topic.group("work").lease(max_messages=1)
        for accept, read in (("", read_text), (OPEN, read_open)):
            status, text = get(endpoint.http_url, "/metrics", Accept=accept)
            assert status == 200
            families = {one.name: one for one in read(text)}
            assert set(SPECIFIED) <= set(families)
            requests = samples(families, "lakebed_requests")
            assert requests["s3", "PutObject", "2xx"] == 1
            assert requests["http", "readyz", "2xx"] == 1
            by_bucket = samples(families, "lakebed_requests_by_bucket")
            assert by_bucket["photos", "s3", "2xx"] == 3
            assert samples(families, "lakebed_requests_by_key")[ACCESS_KEY, "s3", "2xx"] == 3
            assert samples(families, "aof_appended_records") == {("orders",): 1}
            assert ("1", "events") in samples(families, "keratin_commit_bytes")
            assert ("work", "1", "events") in samples(families, "stroma_folds")
            assert samples(families, "lakebed_bytes_in")["s3",] >= 1000
            assert samples(families, "seglake_objects") == {(): 1}
            assert samples(families, "seglake_bytes_live") == {(): 1000}
            assert samples(families, "lakebed_disk_free_bytes")[()] > 0
            assert samples(families, "lakebed_inflight") == {("http", "metrics"): 1}


def test_from_another_machine_metrics_need_a_key(tmp_path: Path) -> None:
    address = another_address()
    arguments = ("--http-host", EVERYWHERE, "--http-insecure")
    with Endpoint(tmp_path / "root", *arguments) as endpoint:
        url = endpoint.http_url
        assert get(url, "/metrics", host="127.0.0.1")[0] == 200
        assert get(url, "/metrics", host=address)[0] == 401
        assert get(url, "/metrics", host=address, Authorization=BASIC)[0] == 200
        assert get(url, "/healthz", host=address)[0] == 200
        assert get(url, "/readyz", host=address)[0] == 200


def test_public_metrics_are_for_all(tmp_path: Path) -> None:
    address = another_address()
    arguments = ("--http-host", EVERYWHERE, "--http-insecure", "--metrics-public")
    with Endpoint(tmp_path / "root", *arguments) as endpoint:
        assert get(endpoint.http_url, "/metrics", host=address)[0] == 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder where there is less room than the largest reserve; if need be, in memory."""
    if shutil.disk_usage(tmp_path).free < TIB:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert shutil.disk_usage(folder).free < TIB
        yield Path(folder)


def test_below_the_reserve_it_says_so_refuses_writes_and_goes_on_reading(small_disk: Path) -> None:
    root = small_disk / "root"
    with lakebed.Store.open(root) as store:
        store.topic("events").append_batch([b"before"]).result()
    with Endpoint(root, environment={"LAKEBED_KERATIN_RESERVE_BYTES": "1TiB"}) as endpoint:
        status, text = get(endpoint.http_url, "/readyz")
        assert status == 503
        assert "1TiB are kept in reserve: writes are refused" in text
        assert get(endpoint.http_url, "/healthz")[0] == 200
        with lakebed.connect(
            endpoint.http_url, access_key=ACCESS_KEY, secret_key=SECRET_KEY
        ) as served:
            topic = served.topic("events")
            with pytest.raises(NoSpace, match="reserve"):
                topic.append_batch([b"more"]).result()
            (message,) = topic.partition(0).read(0)
            assert message.value == b"before"
