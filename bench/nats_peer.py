"""NATS JetStream: a stream in its file store, and pull consumers on it, over a loopback socket.

The protocol is spoken raw: it is lines, and a client library costs more than the server. A batch
is sent in one piece, 1,000 publishes in flight, and every one of them is acknowledged; with
`sync_interval: always` after its sync. An *atomic* batch is one that the server stores as one and
acknowledges once.
"""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.row import Unavailable
from bench.servers import START_S, Server, connect
from lakebed.base.units import MIB

STREAM = "orders"
SUBJECT = b"orders.0"
FETCH_RECORDS = 1_000
ACK = b"+ACK"

_ANSWERS, _MESSAGES = b"answers", b"messages"
_PULL = '{"batch":%d,"expires":%d}'
_PULL_NS = int(START_S * 1e9)
_CONFIGURATION = """
listen: "127.0.0.1:{port}"
ping_interval: "60m"
jetstream {{
  store_dir: {folder}
  sync_interval: {sync_interval}
}}
"""


class Message(NamedTuple):
    """What came for one of our two subscriptions."""

    reply: bytes
    headers: bytes
    payload: bytes


class NatsClient:
    """One connection to a server that is there."""

    def __init__(self, port: int, *, atomic: bool = False) -> None:
        self._inbox = b"_INBOX.%b." % secrets.token_hex(8).encode()
        self._encode = _encode_atomic if atomic else _encode_singles
        self._batch_ids = itertools.count()
        self._consumer_ids = itertools.count()
        self._group = ""
        self._socket = connect(port)
        self._lines = self._socket.makefile("rb", buffering=MIB)
        self._greet()

    def append(self, payloads: Sequence[bytes]) -> None:
        batch = self._encode(payloads, self._inbox, next(self._batch_ids))
        self._socket.sendall(batch.data)
        for _ in range(batch.answer_count):
            answer = self._message().payload
            if batch.answer not in answer or b'"error"' in answer:
                raise OSError(f"NATS did not store what it was given: {answer!r}")

    def fetches(self) -> Iterator[Sequence[bytes]]:
        """All records from the first, up to 1,000 at a time, without acks."""
        left = self._message_count()
        consumer = self._create_consumer("none")
        while left:
            count = min(left, FETCH_RECORDS)
            yield [message.payload for message in self._pull(consumer, count)]
            left -= count
        self._delete_consumer(consumer)

    def open_group(self, name: str) -> None:
        self._group = name

    @property
    def group_name(self) -> str:
        return self._group

    def create_group(self) -> None:
        self._group = self._create_consumer("explicit")

    def rewind_group(self) -> None:
        self._delete_consumer(self._group)
        self.create_group()

    def lease_and_ack(self, batch_count: int, batch_records: int) -> int:
        """So many batches; of each the last ack is confirmed, and so those before it."""
        for _ in range(batch_count):
            messages = self._pull(self._group, batch_records)
            *most, last = [message.reply for message in messages]
            acks = [b"PUB %b %d\r\n%b\r\n" % (to, len(ACK), ACK) for to in most]
            acks.append(_publish(last, ACK, reply=self._inbox + _ANSWERS))
            self._socket.sendall(b"".join(acks))
            self._message()
        return batch_count * batch_records

    def pending(self) -> int:
        """Leased, and not acked."""
        info = self._request(f"CONSUMER.INFO.{STREAM}.{self._group}")
        count: int = info["num_ack_pending"]
        return count

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def _greet(self) -> None:
        assert self._lines.readline().startswith(b"INFO ")
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True,
                   "lang": "python", "version": "0"}  # fmt: skip
        subscribe = b"".join(
            b"SUB %b%b %d\r\n" % (self._inbox, name, number)
            for number, name in enumerate((_ANSWERS, _MESSAGES), 1)
        )
        self._socket.sendall(b"CONNECT %b\r\n" % json.dumps(options).encode() + subscribe)

    def _create_consumer(self, ack_policy: str) -> str:
        name = f"c{next(self._consumer_ids)}"
        configuration = {
            "name": name,
            "durable_name": name,
            "ack_policy": ack_policy,
            "deliver_policy": "all",
            "max_ack_pending": -1,
        }
        self._delete_consumer(name)  # of an earlier life of the server
        self._request(
            f"CONSUMER.CREATE.{STREAM}.{name}",
            {"stream_name": STREAM, "config": configuration, "action": "create"},
        )
        return name

    def _delete_consumer(self, name: str) -> None:
        self._request(f"CONSUMER.DELETE.{STREAM}.{name}", may_fail=True)

    def _message_count(self) -> int:
        count: int = self._request(f"STREAM.INFO.{STREAM}")["state"]["messages"]
        return count

    def _pull(self, consumer: str, count: int) -> list[Message]:
        request = (_PULL % (count, _PULL_NS)).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}".encode()
        self._socket.sendall(_publish(subject, request, reply=self._inbox + _MESSAGES))
        messages = [self._message() for _ in range(count)]
        if any(message.headers.startswith(b"NATS/1.0 4") for message in messages):
            raise OSError(f"NATS had fewer than {count} messages")
        return messages

    def _request(self, name: str, body: Any = None, *, may_fail: bool = False) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        self._socket.sendall(
            _publish(f"$JS.API.{name}".encode(), data, reply=self._inbox + _ANSWERS)
        )
        answer: dict[str, Any] = json.loads(self._message().payload)
        if "error" in answer and not may_fail:
            raise OSError(f"NATS refused {name}: {answer['error']}")
        return answer

    def _message(self) -> Message:
        lines = self._lines
        while True:
            words = lines.readline().split()
            match words:
                case [b"MSG", _, _, size]:
                    return Message(b"", b"", lines.read(int(size) + 2)[:-2])
                case [b"MSG", _, _, reply, size]:
                    return Message(reply, b"", lines.read(int(size) + 2)[:-2])
                case [b"HMSG", _, _, *reply, header_size, size]:
                    data = lines.read(int(size) + 2)
                    end = int(header_size)
                    return Message(b"".join(reply), data[:end], data[end:-2])
                case [b"PING"]:
                    self._socket.sendall(b"PONG\r\n")
                case _:
                    raise OSError(f"NATS said {words!r}")


class NatsStream(NatsClient):
    """A server, and one connection to it. `durable` is whether it syncs before it answers; a
    stream goes on where it was."""

    def __init__(self, folder: Path, *, durable: bool = True, atomic: bool = False) -> None:
        self._folder = folder
        self._durable = durable
        self._server = Server("nats-server", self._configure, folder)
        self.address = str(self._server.port)
        try:
            super().__init__(self._server.port, atomic=atomic)
            self._create_stream(atomic=atomic)
        except BaseException:
            self._server.close()
            raise

    def close(self) -> None:
        super().close()
        self._server.close()

    def _configure(self, port: int) -> Sequence[str]:
        path = self._folder / "nats.conf"
        text = _CONFIGURATION.format(
            port=port,
            folder=json.dumps(str(self._folder / "store")),
            sync_interval="always" if self._durable else '"2m"',
        )
        path.write_text(text, encoding="utf-8")
        return ["-c", str(path)]

    def _create_stream(self, *, atomic: bool) -> None:
        configuration = {
            "name": STREAM,
            "subjects": [f"{STREAM}.*"],
            "storage": "file",
            "allow_atomic": atomic,
        }
        created = self._request(f"STREAM.CREATE.{STREAM}", configuration)
        if atomic and not created["config"].get("allow_atomic"):
            raise Unavailable("this nats-server knows no atomic batches")


class _Batch(NamedTuple):
    data: bytes
    answer_count: int
    answer: bytes  # is in each of them


def _encode_singles(payloads: Sequence[bytes], inbox: bytes, batch_id: int) -> _Batch:  # noqa: ARG001
    start = b"PUB %b %b%b " % (SUBJECT, inbox, _ANSWERS)
    data = b"".join([b"%b%d\r\n%b\r\n" % (start, len(data), data) for data in payloads])
    return _Batch(data, len(payloads), b'"seq":')


def _encode_atomic(payloads: Sequence[bytes], inbox: bytes, batch_id: int) -> _Batch:
    start = b"HPUB %b " % SUBJECT
    with_reply = b"%b%b%b " % (start, inbox, _ANSWERS)
    parts = []
    for number, payload in enumerate(payloads, 1):
        is_last = number == len(payloads)
        headers = b"NATS/1.0\r\nNats-Batch-Id: %b%d\r\nNats-Batch-Sequence: %d\r\n%b\r\n" % (
            inbox,  # no other client has it
            batch_id,
            number,
            b"Nats-Batch-Commit: 1\r\n" if is_last else b"",
        )
        size = len(headers) + len(payload)
        line = with_reply if is_last else start
        parts.append(b"%b%d %d\r\n%b%b\r\n" % (line, len(headers), size, headers, payload))
    return _Batch(b"".join(parts), 1, b'"count":%d' % len(payloads))


def _publish(subject: bytes, payload: bytes, *, reply: bytes) -> bytes:
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
