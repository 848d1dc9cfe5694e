"""Follows a page like a reader: in a folder, with shell variables and background processes.

9000 and 9001 in a page become free ports, `AWS_ACCESS_KEY_ID=…` the key that its node has printed,
and `LAKE…` the key that was created last.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tests import java
from tests.docs.blocks import Block, matches_expected
from tests.docs.left_running import SHELL, LeftRunning

LIMIT_S = 600  # of one block: Spark on a machine that has much else to do
KEPT = ("JAVA_HOME", "TMPDIR", "LAKEBED_KERNELS", *java.ENVIRONMENT)
PRINTED_AS = {
    "LAKEBED_ACCESS_KEY": "AWS_ACCESS_KEY_ID",
    "LAKEBED_SECRET_KEY": "AWS_SECRET_ACCESS_KEY",
}
_PLACEHOLDER = re.compile(r"\b([A-Z_]+)=…")
_MADE_KEY = re.compile(r"^access key +(LAKE\w+)$", re.MULTILINE)


class Reader:
    """Runs the blocks of one page in order, in the folder `folder`."""

    def __init__(self, scratch: Path, *, python: Path = Path(sys.executable)) -> None:
        """With the programs of the environment that `python` belongs to."""
        self.folder = scratch / "page"
        self.printed: list[str] = []
        self._home = scratch / "home"
        self._python = python
        self.folder.mkdir()
        self._home.mkdir()
        # An HTTP error makes curl fail.
        (self._home / ".curlrc").write_text("fail-with-body\n", encoding="utf-8")
        self._ports = {"9000": _free_port(), "9001": _free_port()}
        self._variables = {
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "HOME": str(self._home),
            "LC_ALL": "C.UTF-8",
            "LAKEBED_NODE_S3_PORT": self._ports["9000"],
            "LAKEBED_NODE_HTTP_PORT": self._ports["9001"],
        }
        self._left: dict[LeftRunning, Block] = {}
        self._node: LeftRunning | None = None

    def follow(self, blocks: Iterable[Block]) -> None:
        """Runs the blocks; `AssertionError` if one fails or prints something else."""
        for block in blocks:
            if block.stops_node:
                assert self._node is not None, f"line {block.number}: no node is running"
                self._end(self._node)
                self._node = None
            if block.is_run and block.mark == "background":
                self._leave_running(block)
            elif block.is_run:
                self._run(block)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            while kind is None and self._left:
                self._end(next(iter(self._left)))
        finally:
            for process in self._left:
                process.kill()

    def _run(self, block: Block) -> None:
        text = self._filled_in(block.text)
        if block.language == "python":
            command = [str(self._python), "-c", text]
        else:
            command = [*SHELL, f"trap 'env -0 >\"$HOME/variables\"' EXIT\n{text}"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"line {block.number}\n{text}\n{done.stdout}\n{done.stderr}"
        self.printed.append(done.stdout)
        self._compare(block, done.stdout)
        if block.language == "sh":
            variables = (self._home / "variables").read_text(encoding="utf-8").split("\0")
            self._variables = dict(line.split("=", 1) for line in variables if line)

    def _leave_running(self, block: Block) -> None:
        is_node = " serve" in block.text
        assert not is_node or self._node is None, f"line {block.number}: another node is running"
        left = LeftRunning(
            self._filled_in(block.text),
            folder=self.folder,
            variables=self._variables,
            log=self._home / f"log-{len(self.printed)}",
        )
        self._left[left] = block
        if is_node:
            self._node = left
            left.wait_for(r"^HTTP API on ")

    def _end(self, left: LeftRunning) -> None:
        self._compare(self._left[left], left.end())
        del self._left[left]

    def _compare(self, block: Block, printed: str) -> None:
        if block.printed is not None:
            expected = self._filled_in(block.printed)
            message = f"line {block.number}\n{printed}\nis not\n{expected}"
            assert matches_expected(printed, expected), message

    def _filled_in(self, text: str) -> str:
        """Replaces ports and keys by the actual ones."""
        for shown, port in self._ports.items():
            text = re.sub(rf"\b{shown}\b", port, text)
        text = _PLACEHOLDER.sub(lambda match: f"{match[1]}={self._printed_value(match[1])}", text)
        made = _MADE_KEY.findall("".join(self.printed))
        return text.replace("LAKE…", made[-1]) if made else text

    def _printed_value(self, name: str) -> str:
        """The value as the node has printed it, quoted if needed."""
        assert self._node is not None, f"{name}=…: no node has printed it"
        return self._node.wait_for(rf"^export {PRINTED_AS.get(name, name)}=(.*)$")[1]


def _free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])
