"""Clients that race for one key: one of them wins, whatever the others do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.clients.nodes import S3Client
from tests.s3.endpoint import Endpoint

CLIENTS = 32
ROUNDS = 10


class Racer:
    """A connection of its own, that sends signed PUTs."""

    def __init__(self, endpoint: Endpoint, number: int) -> None:
        self._url = endpoint.url
        self._signer = S3SigV4Auth(
            Credentials(endpoint.access_key, endpoint.secret_key), "s3", endpoint.region
        )
        self._connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=60)
        self._connection.connect()
        self.body = f"of client {number}".encode()

    def put(self, path: str, *, start: threading.Barrier, **headers: str) -> int:
        """The status. It is signed before the start, and sent after it."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = AWSRequest("PUT", self._url + path, headers=given, data=self.body)
        self._signer.add_auth(request)
        start.wait()
        self._connection.request("PUT", path, body=self.body, headers=dict(request.headers))
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def racers(endpoint: Endpoint) -> Iterator[list[Racer]]:
    made = [Racer(endpoint, number) for number in range(CLIENTS)]
    yield made
    for racer in made:
        racer.close()


def race(racers: list[Racer], path: str, **headers: str) -> list[int]:
    start = threading.Barrier(CLIENTS)
    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(lambda racer: racer.put(path, start=start, **headers), racers))


def winner(racers: list[Racer], statuses: list[int]) -> Racer:
    assert statuses.count(200) == 1, statuses
    assert set(statuses) <= {200, 409, 412}
    return racers[statuses.index(200)]


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_one_of_32_creates(
    racers: list[Racer], s3: S3Client, bucket: str, round_number: int
) -> None:
    statuses = race(racers, f"/{bucket}/key", If_None_Match="*")
    won = winner(racers, statuses)
    assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == won.body
    assert len(s3.list_object_versions(Bucket=bucket).get("Versions", [])) <= 1


def test_one_of_32_replaces_what_it_has_seen(
    racers: list[Racer], s3: S3Client, bucket: str
) -> None:
    seen = s3.put_object(Bucket=bucket, Key="key", Body=b"first")["ETag"]
    for _ in range(ROUNDS):
        won = winner(racers, race(racers, f"/{bucket}/key", If_Match=seen))
        got = s3.get_object(Bucket=bucket, Key="key")
        assert got["Body"].read() == won.body
        assert got["ETag"] != seen
        seen = got["ETag"]
        won.body += b"+"  # so that no ETag comes again
