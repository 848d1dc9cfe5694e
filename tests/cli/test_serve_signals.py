"""How a node ends, under load, by each signal: what was acknowledged is there afterwards."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

import lakebed
from lakebed.base.errors import LakebedError
from tests.cli.test_serve_http import basic
from tests.host.local_clients import until
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

pytestmark = pytest.mark.process

DRAIN_S: Final = 20
ENOUGH: Final = 40  # acknowledgements of each kind before it ends
BODY: Final = bytes(range(256)) * 300


def s3_client(endpoint: Endpoint) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint.url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}),
    )


class Load:
    """Writers of objects, messages and records, until each is refused; what each was told."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.objects: list[str] = []
        self.messages: list[bytes] = []
        self.records: list[bytes] = []
        self._threads = [
            *(threading.Thread(target=self._put, args=(number,)) for number in range(3)),
            threading.Thread(target=self._produce),
            threading.Thread(target=self._append),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def is_enough(self) -> bool:
        kinds = (self.objects, self.messages, self.records)
        assert all(one.is_alive() for one in self._threads), "a writer was refused too early"
        return all(len(one) >= ENOUGH for one in kinds)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def _put(self, number: int) -> None:
        s3 = s3_client(self._endpoint)
        with suppress(BotoCoreError, ClientError):
            for count in range(100_000):
                key = f"{number}/{count}"
                s3.put_object(Bucket="photos", Key=key, Body=key.encode() + BODY)
                self.objects.append(key)
        s3.close()

    def _produce(self) -> None:
        def write(store: Any) -> None:
            topic = store.topic("events")
            for count in range(100_000):
                value = b"message %d" % count
                topic.append_batch([value]).result()
                self.messages.append(value)

        self._through_http(write)

    def _append(self) -> None:
        def write(store: Any) -> None:
            log = store.log("orders")
            for count in range(100_000):
                value = b"record %d" % count
                log.flush(log.append_record(value))
                self.records.append(value)

        self._through_http(write)

    def _through_http(self, write: Callable[[Any], None]) -> None:
        url = self._endpoint.http_url
        with (
            suppress(LakebedError),
            lakebed.connect(url, access_key=ACCESS_KEY, secret_key=SECRET_KEY, retry_s=0) as store,
        ):
            write(store)


def check_all_is_there(endpoint: Endpoint, load: Load) -> None:
    s3 = s3_client(endpoint)
    for key in load.objects:
        body = s3.get_object(Bucket="photos", Key=key)["Body"].read()
        assert body == key.encode() + BODY, key
    s3.close()
    endpoint.stop()
    with lakebed.Store.open(endpoint.root) as store:
        messages = [one.value for one in store.topic("events").partition(0).read(0)]
        assert messages[: len(load.messages)] == load.messages
        assert len(set(messages)) == len(messages)
        records = [bytes(one.payload) for one in store.log("orders").read()]
        assert records[: len(load.records)] == load.records


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_under_load_nothing_acknowledged_is_lost(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "log"
    with Endpoint(tmp_path / "root", "--drain-seconds", str(DRAIN_S), log=log) as endpoint:
        s3 = s3_client(endpoint)
        s3.create_bucket(Bucket="photos")
        s3.close()
        load = Load(endpoint)
        load.start()
        until(load.is_enough)
        endpoint.signal(number)
        exit_code = endpoint.wait()  # or it fails: the limit, and some seconds to close the store
        load.join()
        assert exit_code == (-signal.SIGKILL if number is signal.SIGKILL else 0)
        said = log.read_text()
        assert ("drained is_clean=True" in said) is (number is not signal.SIGKILL)
        assert "Traceback" not in said
        endpoint.start()
        check_all_is_there(endpoint, load)


def begun(endpoint: Endpoint) -> HTTPConnection:
    """A request whose end never comes."""
    place = urlsplit(endpoint.http_url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    connection.putrequest("POST", "/v1/logs/orders/records")
    for name, value in basic().items():
        connection.putheader(name, value)
    connection.putheader("Content-Type", "application/x-ndjson")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders(b"first\n")
    return connection


def under_way(endpoint: Endpoint) -> bool:
    place = urlsplit(endpoint.http_url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return 'lakebed_inflight{endpoint="http",op="append_records"} 1.0' in text


@pytest.mark.parametrize("signals", [1, 2])
def test_what_does_not_end_is_cut_after_the_limit_or_by_a_second_signal(
    tmp_path: Path, signals: int
) -> None:
    """With a limit of ten minutes the first of two alone would not end it."""
    limit_s = "0.5" if signals == 1 else "600"
    log = tmp_path / "log"
    with Endpoint(tmp_path / "root", "--drain-seconds", limit_s, log=log) as endpoint:
        url = endpoint.http_url
        with lakebed.connect(url, access_key=ACCESS_KEY, secret_key=SECRET_KEY) as store:
            store.log("orders")
        connection = begun(endpoint)
        until(lambda: under_way(endpoint))
        endpoint.signal(signal.SIGTERM)
        if signals == 2:
            until(lambda: "draining" in log.read_text())
            endpoint.signal(signal.SIGTERM)
        assert endpoint.wait() == 0
        assert log.read_text().endswith("lakebed: some requests were aborted\n")
        with pytest.raises((OSError, HTTPException)):
            connection.getresponse()
        connection.close()


def test_sighup_while_it_ends_does_not_kill_it(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root", log=tmp_path / "log") as endpoint:
        endpoint.signal(signal.SIGHUP)
        endpoint.signal(signal.SIGTERM)
        for _ in range(20):
            endpoint.signal(signal.SIGHUP)
        assert endpoint.wait() == 0
