"""A program that runs in another terminal until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

LIMIT_S = 240
SHELL = ("bash", "-e", "-o", "pipefail", "-c")


class LeftRunning:
    """Started when it is made; `end` or `kill` it."""

    def __init__(
        self, script: str, *, folder: Path, variables: Mapping[str, str], log: Path
    ) -> None:
        """Its standard error goes to the file `log`."""
        self._script = script
        self._log = log
        self._printed = ""
        self._is_ended = False
        self._changed = threading.Condition()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [*SHELL, script],
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Waits until it has printed a matching line."""
        line = re.compile(pattern, re.MULTILINE)
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_ended or line.search(self._printed), timeout=LIMIT_S
            )
            found = line.search(self._printed)
        assert found, f"{self._script} has not printed {pattern}: {self._output()}"
        return found

    def end(self) -> str:
        """Sends Ctrl-C to it and its children; returns its output, which must not be empty."""
        self.wait_for(".")
        os.killpg(self._process.pid, signal.SIGINT)
        try:
            code = self._process.wait(LIMIT_S)
        finally:
            self.kill()
        assert code in (0, 130, -signal.SIGINT), (
            f"{self._script} ended with {code}: {self._output()}"
        )
        return self._printed

    def kill(self) -> None:
        """Kills it and everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._printed += line
                self._changed.notify_all()
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def _output(self) -> str:
        return f"{self._printed}\n{self._log.read_text(encoding='utf-8')}"
