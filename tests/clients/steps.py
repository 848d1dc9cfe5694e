"""Clients that live elsewhere: a program in another language, or another environment, of steps.

The program is given the endpoint in its environment. It then reads lines from its input, each a
JSON object with the name of a `step` and what it is given, and answers each with another, whose
`failed` is empty or says what went wrong. A step is a function of the program whose name starts
with `step_`; every one of them is a test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.s3.endpoint import Endpoint

HERE = Path(__file__).parent
_STEP = re.compile(r"^(?:async )?(?:def|function) (step_\w+)", re.MULTILINE)


def steps_of(file: str) -> list[str]:
    return _STEP.findall((HERE / file).read_text(encoding="utf-8"))


class Steps:
    """A started program; ends when it is left."""

    def __init__(
        self,
        command: list[str],
        *,
        file: str,
        endpoint: Endpoint,
        home: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        told = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": endpoint.access_key,
            "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
            "ENDPOINT": endpoint.url,
            **(environment or {}),
        }
        self._process = subprocess.Popen(
            [*command, str(HERE / file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home,
            env=told,
        )

    def run(self, step: str, **given: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"step": step, **given}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"the program ended with {self._process.wait()}"
        failed = json.loads(line)["failed"]
        assert not failed, failed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
