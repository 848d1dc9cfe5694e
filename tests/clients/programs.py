"""Clients that are programs: run with what they are told, and nothing of the user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]


class Failed(Exception):
    """A program ended with another code than 0; its message is what it wrote."""


class Program:
    """Run in the folder `home`, with this environment and no other."""

    def __init__(
        self, name: str, *, home: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.home = home
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            **(environment or {}),
        }

    def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        """What it wrote, as text."""
        return self.raw(*arguments, stdin=stdin).decode()

    def raw(self, *arguments: str, stdin: bytes = b"") -> bytes:
        code, stdout, stderr = self.run(arguments, stdin)
        if code:
            said = (stdout + stderr).decode(errors="replace")
            raise Failed(f"{arguments}: {code}: {said}")
        return stdout

    def run(self, arguments: Sequence[str], stdin: bytes) -> tuple[int, bytes, bytes]:
        """Its code, and what it wrote to its output and its errors."""
        ended = subprocess.run(
            [BIN / self.name, *arguments],
            check=False,
            input=stdin,
            capture_output=True,
            cwd=self.home,
            env=self.environment,
        )
        return ended.returncode, ended.stdout, ended.stderr


class Forks:
    """A process of `aws_forks`, which runs the aws command; ends when it is left."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.clients.aws_forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )

    def run(self, **asked: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


class ForkedAws(Program):
    """The aws command, without the time that it takes to load."""

    def __init__(self, forks: Forks, *, home: Path, environment: Mapping[str, str]) -> None:
        super().__init__("aws", home=home, environment=environment)
        self._forks = forks

    def run(self, arguments: Sequence[str], stdin: bytes) -> tuple[int, bytes, bytes]:
        given, stdout, stderr = (self.home / f".{name}" for name in ("stdin", "stdout", "stderr"))
        given.write_bytes(stdin)
        code = self._forks.run(
            arguments=arguments,
            folder=str(self.home),
            environment=self.environment,
            stdin=str(given),
            stdout=str(stdout),
            stderr=str(stderr),
        )
        return code, stdout.read_bytes(), stderr.read_bytes()
