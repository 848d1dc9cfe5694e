"""A node in another process, as its users start it: `lakebed serve` on a free port.

with Endpoint(tmp_path / "store") as endpoint:
    endpoint.url, endpoint.access_key, endpoint.secret_key
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ACCESS_KEY = "lakebed-tests"
SECRET_KEY = "a secret of the tests"  # noqa: S105


class Endpoint:
    """Started when it is entered; ended by SIGTERM when it is left."""

    def __init__(
        self,
        root: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        descriptor_limits: tuple[int, int] | None = None,
    ) -> None:
        """`arguments` go to `serve`. The ports are free, and stay the same over restarts. What it
        says on its standard error is put in the file `log`, if there is one. The limits of its
        descriptors are a soft and a hard one."""
        self.root = root
        self.access_key = ACCESS_KEY
        self.secret_key = SECRET_KEY
        self.region = "us-east-1"
        self.url = ""
        self.http_url = ""
        self._arguments = arguments
        self._environment = dict(environment or {})
        self._log = log
        self._limits = descriptor_limits
        self._port = 0
        self._http_port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        command = [sys.executable, "-m", "lakebed.cli", "--root", str(self.root), "--json", "serve"]
        command += ["--s3-port", str(self._port), "--http-port", str(self._http_port)]
        command += self._arguments
        if self._limits is not None:
            soft, hard = self._limits
            limiting = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
            command = ["sh", "-c", limiting, "sh", *command]
        variables = {"LAKEBED_ACCESS_KEY": ACCESS_KEY, "LAKEBED_SECRET_KEY": SECRET_KEY}
        with contextlib.ExitStack() as stack:
            log = None if self._log is None else stack.enter_context(self._log.open("ab"))
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **variables, **self._environment},
            )
        assert self._process.stdout is not None
        lines: list[str] = []
        while not lines or lines[-1].rstrip() != "}":
            line = self._process.stdout.readline()
            assert line, f"the node ended with {self._process.wait()}"
            lines.append(line)
        told = json.loads("".join(lines))
        self.url, self.http_url = told["s3"], told.get("http", "")
        self._port = int(self.url.rpartition(":")[2])
        if self.http_url:
            self._http_port = int(self.http_url.rpartition(":")[2])

    def stop(self) -> int:
        """By SIGTERM; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> int:
        """By SIGKILL."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def signal(self, number: int) -> None:
        assert self._process is not None, "not started"
        self._process.send_signal(number)

    def wait(self) -> int:
        """Until it ends, by a signal that it was sent before; its exit code."""
        process, self._process = self._process, None
        assert process is not None, "not started"
        code = process.wait(60)
        assert process.stdout is not None
        process.stdout.close()
        return code

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()
