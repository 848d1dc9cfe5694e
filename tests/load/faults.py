"""What goes wrong beside the traffic, and how it must end: refused, or not noticed by anyone else.

Clients that are killed in the midst, connections that are cut in a body, wrong keys, bodies that
are too large, a SIGHUP. One after the other, each after some more work of the others.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from itertools import count
from random import Random
from typing import Final
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from lakebed.api.problems import Unauthenticated
from lakebed.base.errors import TooLarge
from tests.load.messages import TOPIC
from tests.load.node import BUCKET, MESSAGE_BYTES_MAX, OBJECT_BYTES_MAX, Node
from tests.load.topic_traffic import Produced, TopicTraffic
from tests.load.traffic import Traffic
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY

BETWEEN: Final = 150  # operations of the others between two of them
SAID_MAX: Final = 40  # acknowledgements before a client is killed
WRONG: Final = "not the secret of anybody"
GIVE_UP_S: Final = 60
ORDER: Final = (
    "kill_producer", "wrong_secret", "cut_put", "too_large_object", "kill_consumer", "cut_append",
    "unknown_key", "too_large_message", "kill_putter", "wrong_secret_of_http", "cut_put",
)  # fmt: skip


class Faults:
    """One thread. `objects` are those of killed clients: acknowledged, and perhaps there."""

    def __init__(self, node: Node, topic: TopicTraffic, traffic: Traffic, *, seed: int) -> None:
        self._node = node
        self._topic = topic
        self._traffic = traffic
        self._random = Random(f"faults {seed}")
        self._s3 = node.s3()
        self.done = Counter[str]()
        self.acknowledged: dict[str, str] = {}
        self.perhaps: dict[str, str] = {}

    def run(self) -> None:
        for turn in count():
            if not self._traffic.wait_for_more(BETWEEN):
                return
            kind = ORDER[turn % len(ORDER)]
            getattr(self, f"_{kind}")(turn)
            self.done[kind] += 1
            if turn == 2:
                self._node.signal(signal.SIGHUP)

    def close(self) -> None:
        self._s3.close()

    # Who must not be let in.

    def _wrong_secret(self, _turn: int) -> None:
        self._refused_get(access_key=ACCESS_KEY, code="SignatureDoesNotMatch")

    def _unknown_key(self, _turn: int) -> None:
        self._refused_get(access_key="NOBODY", code="InvalidAccessKeyId")

    def _wrong_secret_of_http(self, _turn: int) -> None:
        with self._node.connect(secret_key=WRONG) as store, pytest.raises(Unauthenticated):
            store.topic(TOPIC)

    def _refused_get(self, *, access_key: str, code: str) -> None:
        s3 = self._node.s3(access_key=access_key, secret_key=WRONG)
        with pytest.raises(ClientError) as refused:
            s3.list_objects_v2(Bucket=BUCKET)
        s3.close()
        assert refused.value.response["Error"]["Code"] == code

    # Who wants too much.

    def _too_large_object(self, turn: int) -> None:
        body = bytes(OBJECT_BYTES_MAX + 1)
        with pytest.raises(ClientError) as refused:
            self._s3.put_object(Bucket=BUCKET, Key=f"large/{turn}", Body=body)
        assert refused.value.response["Error"]["Code"] == "EntityTooLarge"

    def _too_large_message(self, _turn: int) -> None:
        with self._node.connect() as store, pytest.raises(TooLarge):
            store.topic(TOPIC).append_batch([bytes(MESSAGE_BYTES_MAX + 1)]).result()

    # Who goes away in the midst of a body.

    def _cut_put(self, turn: int) -> None:
        url = self._s3.generate_presigned_url(
            "put_object", Params={"Bucket": BUCKET, "Key": f"cut/{turn}"}
        )
        self._cut(url, "PUT")

    def _cut_append(self, _turn: int) -> None:
        key = b64encode(f"{ACCESS_KEY}:{SECRET_KEY}".encode()).decode()
        headers = f"Authorization: Basic {key}\r\nContent-Type: application/json\r\n"
        self._cut(f"{self._node.http_url}/v1/topics/{TOPIC}/messages", "POST", headers)

    def _cut(self, url: str, method: str, headers: str = "") -> None:
        place = urlsplit(url)
        target = f"{place.path}?{place.query}" if place.query else place.path
        head = f"{method} {target} HTTP/1.1\r\nHost: {place.netloc}\r\n{headers}"
        body = bytes(self._random.randrange(200_000))
        length = f"Content-Length: {len(body) + 1}\r\n\r\n"
        address = (place.hostname or "", place.port or 0)
        with socket.create_connection(address, timeout=GIVE_UP_S) as client:
            client.sendall((head + length).encode() + body)

    # Who is killed.

    def _kill_producer(self, turn: int) -> None:
        name = f"killed-{turn}"
        sent = acknowledged = 0
        for word, number in self._killed("produce", name):
            if word == "sent":
                sent = int(number)
            else:
                acknowledged = int(number)
        self._topic.ledger[name] = Produced(sent, acknowledged)
        self._topic.window.give(acknowledged)

    def _kill_consumer(self, turn: int) -> None:
        self._killed("consume", f"killed-{turn}")

    def _kill_putter(self, turn: int) -> None:
        for word, told in self._killed("put", f"killed-{turn}"):
            key, _, found = told.partition(" ")
            (self.perhaps if word == "sent" else self.acknowledged)[key] = found

    def _killed(self, kind: str, name: str) -> list[tuple[str, str]]:
        """What it said, until some time after so many acknowledgements it was killed."""
        command = [sys.executable, "-m", "tests.load.victim", kind, name]
        urls = [self._node.http_url, self._node.url]
        enough = self._random.randint(1, SAID_MAX)
        said: list[tuple[str, str]] = []
        with subprocess.Popen([*command, *urls], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                word, _, told = line.strip().partition(" ")
                said.append((word, told))
                enough -= word == "acknowledged"
                if enough == 0:
                    process.kill()
        assert process.returncode == -signal.SIGKILL, said
        return said
