"""The demo's node: started, killed and stopped; what it tells, and what is told of its failure."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from lakebed.base.runner import ThreadRunner
from lakebed.client.store import RemoteStore
from lakebed.node.demo.node_process import (
    NodeFailed,
    NodeProcess,
    ReadyLine,
    log_tail,
    plain_environment,
    ready_line_in,
)

DOCUMENT = b'{"s3": "http://a:1", "http": "http://a:2", "region": "r", "connect": {}}'


def test_a_document_counts_when_all_of_it_is_there() -> None:
    for length in range(len(DOCUMENT)):
        assert ready_line_in(DOCUMENT[:length]) is None
    assert ready_line_in(DOCUMENT) == ReadyLine("http://a:1", "http://a:2", "r")


def test_a_secret_is_in_no_text() -> None:
    assert "hidden" not in repr(ReadyLine("a", "b", "c", "key", "hidden"))


@pytest.mark.parametrize(
    ("log", "tail"),
    [
        (b"", "its log is empty"),
        (b"\n \n", "its log is empty"),
        (b"serving\nlakebed: no room\n\n", "no room"),
        (b'first\n{"error": {"kind": "Busy", "message": "no room"}}\n', "no room"),
        (b'{"error": "odd"}', '{"error": "odd"}'),
        (b"[1]", "[1]"),
        (b"\xff\n", "\ufffd"),
    ],
)
def test_the_end_of_a_log_is_what_it_says_last(log: bytes, tail: str) -> None:
    assert log_tail(log) == tail


def test_settings_of_the_environment_are_not_passed_on() -> None:
    given = {"PATH": "/bin", "LAKEBED_ROOT": "x", "LAKEBED_KERNELS": "reference"}
    assert plain_environment(given) == {"PATH": "/bin", "LAKEBED_KERNELS": "reference"}


@pytest.mark.process
def test_a_node_that_was_killed_comes_back_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_NODE_S3_HOST", "nowhere.invalid")
    with ThreadRunner() as runner:
        root = tmp_path / "store"
        node = NodeProcess(root, folder=tmp_path, runner=runner, environment=os.environ)
        with node:
            told = node.ready_line
            with RemoteStore.open(
                told.http, access_key=told.access_key, secret_key=told.secret_key
            ) as store:
                store.topic("orders").append_batch([b"one"]).result()
                node.kill()
                node.start()
                messages = [message.value for message in store.topic("orders").partition(0).read()]
            assert messages == [b"one"]
            assert node.stop() == 0
        node.close()
        port = int(node.ready_line.http.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


@pytest.mark.process
def test_a_node_that_does_not_come_up_is_one_line_with_the_end_of_its_log(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.touch()
    with ThreadRunner() as runner:
        node = NodeProcess(root, folder=tmp_path, runner=runner, environment={})
        with pytest.raises(NodeFailed, match=r"did not start \(exit 64\): .*must be a folder"):
            node.start()
        node.close()
    last = (tmp_path / "node-1.log").read_text().splitlines()[-1]
    assert "must be a folder" in json.loads(last)["error"]["message"]
