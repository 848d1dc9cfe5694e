"""The command line run in the tests' own process: as fast as a call, with bytes in and out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lakebed.cli.main import main


class Done(NamedTuple):
    """How a command ended."""

    exit_code: int
    out: bytes
    err: bytes

    def lines(self) -> list[str]:
        assert (self.exit_code, self.err) == (0, b"")
        return self.out.decode().splitlines()

    def document(self) -> Any:
        """The one JSON document on standard output."""
        assert self.err == b""
        return json.loads(self.out)

    def error_line(self) -> str:
        """The one line that an error must be."""
        text = self.err.decode()
        assert text.startswith("lakebed: ")
        assert text.endswith("\n")
        assert text[:-1].isprintable(), text
        return text.removeprefix("lakebed: ").rstrip("\n")


Run = Callable[..., Done]


def runner(
    root: Path | str, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes]
) -> Run:
    """A function that runs `lakebed --root <root> …`; the root may be a URL."""

    def run(*arguments: str | Path, stdin: bytes = b"", as_json: bool = False) -> Done:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        top = ["--root", str(root), *(["--json"] if as_json else [])]
        capture.readouterr()
        exit_code = main([*top, *map(str, arguments)])
        printed = capture.readouterr()
        return Done(exit_code, printed.out, printed.err)

    return run
