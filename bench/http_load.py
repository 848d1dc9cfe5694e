"""Load on an HTTP server: `wrk` for many small requests, a socket for few large ones.

`wrk` is taken from the system, or else fetched once as a Debian package and unpacked, without
being installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse, RemoteDisconnected
from pathlib import Path

from bench.row import Unavailable

WRK_FOLDER = Path(__file__).parents[1] / "build" / "wrk"
WRK_PROGRAM = WRK_FOLDER / "usr" / "bin" / "wrk"
WRK_PACKAGES = ("wrk", "libluajit-5.1-2")
FETCH_S = 120.0
ANSWER_S = 60.0

_COUNT = re.compile(r"(\d+) requests in ")
_PUT_SCRIPT = """
wrk.method = "PUT"
wrk.body = string.rep("x", {size})
"""

_REQUESTS_SCRIPT = """
local ready, place = {{}}, 0
function init(args)
  local body = {size} > 0 and string.rep("x", {size}) or nil
  for line in io.lines("{path}") do
    local words = {{}}
    for word in line:gmatch("[^\\t]+") do words[#words + 1] = word end
    local headers = {{}}
    for i = 2, #words, 2 do headers[words[i]] = words[i + 1] end
    ready[#ready + 1] = wrk.format("{method}", words[1], headers, body)
  end
end
function request()
  place = place % #ready + 1
  return ready[place]
end
"""


class Load:
    """`clients` connections that ask again as soon as they are answered, for whole seconds."""

    def __init__(self, url: str, *, clients: int, duration_s: int, put_bytes: int, folder: Path):
        self._environment, program = wrk()
        self._command = [program, "-t1", f"-c{clients}", f"-d{duration_s}s"]
        if put_bytes:
            script = folder / "put.lua"
            script.write_text(_PUT_SCRIPT.format(size=put_bytes), encoding="utf-8")
            self._command += ["-s", str(script)]
        self._command.append(url)

    def __call__(self) -> int:
        """How many requests were answered."""
        return answered(self._command, self._environment)


class ManyRequests:
    """As `Load`, of requests that differ: each is sent in turn, and again from the first."""

    def __init__(self, host: str, *, clients: int, duration_s: int, folder: Path) -> None:
        self._environment, program = wrk()
        self._requests = folder / "requests.txt"
        self._script = folder / "requests.lua"
        self._command = [program, "-t1", f"-c{clients}", f"-d{duration_s}s"]
        self._command += ["-s", str(self._script), f"http://{host}/"]

    def prepare(
        self, method: str, requests: Sequence[tuple[str, Mapping[str, str]]], *, body_bytes: int
    ) -> None:
        script = _REQUESTS_SCRIPT.format(path=self._requests, method=method, size=body_bytes)
        self._script.write_text(script, encoding="utf-8")
        lines = [
            "\t".join([path, *(text for pair in headers.items() for text in pair)])
            for path, headers in requests
        ]
        self._requests.write_text("\n".join(lines), encoding="utf-8")

    def __call__(self) -> int:
        """How many requests were answered."""
        return answered(self._command, self._environment)


def answered(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """How many requests were answered, all of them well."""
    told = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
    found = _COUNT.search(told)
    if found is None or "Non-2xx" in told or "Socket errors" in told:
        raise OSError(f"wrk was not content: {told}")
    return int(found[1])


@cache
def wrk() -> tuple[dict[str, str], str]:
    """The environment to run it in, and its path. `Unavailable`."""
    environment = dict(os.environ)
    program = shutil.which("wrk")
    if program is not None:
        return environment, program
    if not WRK_PROGRAM.exists():
        _fetch_wrk()
    libraries = {str(path.parent) for path in WRK_FOLDER.rglob("*.so*")}
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(sorted(libraries))
    return environment, str(WRK_PROGRAM)


def _fetch_wrk() -> None:
    """All of it at once: another process may be at it, too."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise Unavailable("no wrk here")
    WRK_FOLDER.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=WRK_FOLDER.parent) as scratch:
            _unpack_wrk(Path(scratch), Path(scratch, "unpacked"))
            with contextlib.suppress(OSError):  # who was faster has the same
                os.rename(Path(scratch, "unpacked"), WRK_FOLDER)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"no wrk here, and it could not be fetched: {error}") from error
    if not WRK_PROGRAM.exists():
        raise Unavailable(f"no wrk here, and it could not be put into {WRK_FOLDER}")


def _unpack_wrk(scratch: Path, unpacked: Path) -> None:
    subprocess.run(
        ["apt-get", "download", *WRK_PACKAGES],
        cwd=scratch,
        check=True,
        capture_output=True,
        timeout=FETCH_S,
    )
    for package in scratch.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, unpacked], check=True, capture_output=True)


class OneClient:
    """Requests one after the other on one connection, or each on one of its own."""

    def __init__(self, host: str, port: int, *, keeps_alive: bool = True) -> None:
        self._connection = HTTPConnection(host, port, timeout=ANSWER_S)
        self._keeps_alive = keeps_alive

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        """What is answered with success; `OSError` for anything else."""
        try:
            answer = self._answer(method, path, body, headers)
        except (RemoteDisconnected, ConnectionError):  # it was idle for too long
            self._connection.close()
            answer = self._answer(method, path, body, headers)
        told = answer.read()
        if not self._keeps_alive:
            self._connection.close()
        if answer.status != HTTPStatus.OK:
            raise OSError(f"{method} {path}: {answer.status} {told[:1000]!r}")
        return told

    def _answer(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str] | None
    ) -> HTTPResponse:
        self._connection.request(method, path, body, dict(headers or {}))
        return self._connection.getresponse()

    def close(self) -> None:
        self._connection.close()
