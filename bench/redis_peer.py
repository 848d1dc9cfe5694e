"""Redis Streams: a stream, and a group on it, in raw RESP over a loopback socket.

A batch is one `MULTI` with an `XADD` a record, sent in one piece; one record is an `XADD` alone.
With `appendfsync always` the server answers after the sync. It does not rewrite its file in the
background meanwhile, nor save snapshots. Replies are parsed by `hiredis`, in C.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.row import Unavailable
from bench.servers import POLL_S, Server, connect
from lakebed.base.units import MIB

STREAM = b"orders"
GROUP = b"billing"
FETCH_RECORDS = 1_000
FIELD = b"v"
START_ID = b"0"

_RECEIVE_BYTES = MIB


class RedisClient:
    """One connection to a server that is there."""

    def __init__(self, port: int) -> None:
        self._reader = _new_reader()
        self._socket = connect(port)

    def append(self, payloads: Sequence[bytes]) -> None:
        if len(payloads) == 1:
            self.call(b"XADD", STREAM, b"*", FIELD, payloads[0])
            return
        add = b"*5\r\n" + b"".join(map(_word, (b"XADD", STREAM, b"*", FIELD)))
        body = b"".join([b"%b$%d\r\n%b\r\n" % (add, len(data), data) for data in payloads])
        ids = self._transact(body, len(payloads))
        assert len(ids) == len(payloads), "Redis took less than it was given"

    def fetches(self) -> Iterator[Sequence[bytes]]:
        """All records from the first, up to 1,000 at a time."""
        last = START_ID
        while entries := self._entries(_read(last)):
            yield [fields[1] for _, fields in entries]
            last = entries[-1][0]

    def open_group(self, name: str) -> None:
        """There is but one."""

    @property
    def group_name(self) -> str:
        return GROUP.decode()

    def create_group(self) -> None:
        self.call(b"XGROUP", b"CREATE", STREAM, GROUP, START_ID)

    def rewind_group(self) -> None:
        self.call(b"XGROUP", b"SETID", STREAM, GROUP, START_ID)

    def lease_and_ack(self, batch_count: int, batch_records: int) -> int:
        """So many batches one after another; the acks of one go with the lease of the next."""
        lease = _lease(batch_records)
        entries = self._entries(lease)
        count = len(entries)
        for _ in range(batch_count - 1):
            _, reply = self._transact(_ack(entries) + lease, 2)
            entries = _entries_of(reply)
            count += len(entries)
        acked = self._transact(_ack(entries), 1)
        assert acked == [len(entries)], "Redis did not take all acks"
        return count

    def pending(self) -> int:
        """Leased, and not acked."""
        (count, *_) = self.call(b"XPENDING", STREAM, GROUP)
        assert isinstance(count, int)
        return count

    def call(self, *words: bytes) -> Any:
        self._socket.sendall(_command(*words))
        return self._reply()

    def close(self) -> None:
        self._socket.close()

    def _entries(self, request: bytes) -> list[Any]:
        self._socket.sendall(request)
        return _entries_of(self._reply())

    def _transact(self, body: bytes, command_count: int) -> list[Any]:
        """The replies of the commands in `body`, which are applied and synced as one."""
        self._socket.sendall(b"".join([_command(b"MULTI"), body, _command(b"EXEC")]))
        for _ in range(1 + command_count):  # OK, and so often QUEUED
            self._reply()
        replies = self._reply()
        assert isinstance(replies, list)
        return replies

    def _reply(self) -> Any:
        gets = self._reader.gets
        while (reply := gets()) is False:
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionError("Redis closed the connection")
            self._reader.feed(data)
        if isinstance(reply, Exception):
            raise reply
        return reply


class RedisStream(RedisClient):
    """A server, and one connection to it. `durable` is whether it syncs before it answers; a
    stream goes on where it was."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        _new_reader()  # before anything is started

        def command(port: int) -> Sequence[str]:
            return _arguments(port, folder, durable=durable)

        self._server = Server("redis-server", command, folder)
        self.address = str(self._server.port)
        try:
            super().__init__(self._server.port)
            self._wait_until_loaded()
        except BaseException:
            self._server.close()
            raise

    def close(self) -> None:
        super().close()
        self._server.close()

    def _wait_until_loaded(self) -> None:
        """It listens before it has read its file."""
        while True:
            try:
                self.call(b"PING")
                return
            except Exception as error:
                if "LOADING" not in str(error):
                    raise
                time.sleep(POLL_S)


def _arguments(port: int, folder: Path, *, durable: bool) -> Sequence[str]:
    settings = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(folder),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always" if durable else "no",
        "auto-aof-rewrite-percentage": "0",
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def _read(last: bytes) -> bytes:
    return _command(b"XREAD", b"COUNT", b"%d" % FETCH_RECORDS, b"STREAMS", STREAM, last)


def _lease(count: int) -> bytes:
    return _command(b"XREADGROUP", b"GROUP", GROUP, b"worker", b"COUNT", b"%d" % count,
                    b"STREAMS", STREAM, b">")  # fmt: skip


def _ack(entries: Sequence[Any]) -> bytes:
    return _command(b"XACK", STREAM, GROUP, *(entry[0] for entry in entries))


def _entries_of(reply: Any) -> list[Any]:
    """Of the one stream that was asked for: (id, [field, value]) each."""
    if reply is None:
        return []
    entries = reply[0][1]
    assert isinstance(entries, list)
    return entries


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(map(_word, words))


def _word(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def _new_reader() -> Any:
    try:
        return importlib.import_module("hiredis").Reader()
    except ImportError:
        raise Unavailable("hiredis is not installed; `make bench` does") from None
