"""Programs that have the store open, and scripts of commands that are run beside them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.cli.in_process import Done, Run
from tests.s3.endpoint import Endpoint

EMBEDDING: Final = """
import sys
import lakebed

with lakebed.Store.open(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.read()
"""
LOGS_ALONE: Final = """
import sys
from lakebed.aof.manager import AofManager

with AofManager(sys.argv[1]):
    print("ready", flush=True)
    sys.stdin.read()
"""

_CHANGING: Final = [
    (re.compile(pattern), word)
    for pattern, word in (
        (rb"checksum is \d+, expected \d+", b"checksum is <number>, expected another"),
        (rb"\b[0-9a-f]{32}\b", b"<id>"),
        (rb"\b\d{4}-\d\d-\d\dT[\d:.]+Z", b"<time>"),
        (rb"\b\d{13}\b", b"<ms>"),
        (rb"\d{19,20}\b", b"<ns>"),
        (rb"\baof2/[0-9a-f]{16}\b", b"aof2/<stream>"),
        (rb"\bLAKE[A-Z0-9]{16}\b", b"<key>"),
        (rb"\b[A-Z2-7]{40}\b", b"<secret>"),
        (rb"\(process \d+\)", b"(process <number>)"),
        # Compressed, with the times in it: of another size each time.
        (rb"bytes as \d+", b"bytes as <size>"),
        (rb"[\d.]+ KiB", b"<size>"),
        (rb'"(compressed_)?bytes": \d+', b'"\\1bytes": <size>'),
    )
]


class Step(NamedTuple):
    """A command; `<id>` and `<key>` in it are the last ones that were printed."""

    command: str
    stdin: bytes = b""
    as_json: bool = False


@contextmanager
def program(source: str, root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """It is ready, and ends with its input, or by the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def holding(how: str, root: Path) -> Iterator[Path | str]:
    """`alone`: no process has the store open; else which one does. Yields what `--root` is."""
    match how:
        case "alone":
            yield root
        case "embedding":
            with program(EMBEDDING, root):
                yield root
        case "serving":
            with Endpoint(root.absolute()):  # it spells its paths in another way
                yield root
        case "remote":
            with Endpoint(root.absolute()) as node:
                yield node.http_url
        case _:
            raise AssertionError(how)


def played(run: Run, steps: Iterable[Step], root: Path) -> list[tuple[str, int, bytes, bytes]]:
    """What each printed, without what is another one each time. A node calls its root by the
    absolute path: that is printed as `root` is here."""
    there, here = os.fsencode(root.absolute()), os.fsencode(root)
    found = []
    last = {"<id>": "0" * 32, "<key>": "LAKE"}
    for step in steps:
        words = [last.get(word, word) for word in step.command.split()]
        done = run(*words, stdin=step.stdin, as_json=step.as_json)
        _remember(done, last)
        out, err = (without_changing(text.replace(there, here)) for text in (done.out, done.err))
        found.append((step.command, done.exit_code, out, err))
    return found


def without_changing(text: bytes) -> bytes:
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return text


def _remember(done: Done, last: dict[str, str]) -> None:
    ids = re.findall(rb"\b[0-9a-f]{32}\b", done.out)
    keys = re.findall(rb"\bLAKE[A-Z0-9]{16}\b", done.out)
    last |= {"<id>": ids[-1].decode()} if ids else {}
    last |= {"<key>": keys[-1].decode()} if keys else {}
