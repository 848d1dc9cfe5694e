"""S3 servers, one process each, on a scratch folder.

- lakebed acknowledges what is durable.
- moto keeps objects in memory.
- s3rver (npm) writes files, and syncs none.
- rclone (`rclone serve s3`) writes files, and syncs none.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.http_load import OneClient
from bench.row import Unavailable
from bench.s3_signing import Credentials, signed_headers
from bench.servers import HOST, Server

BUCKET = "bench"
NPM_FOLDER = Path(__file__).parents[1] / "build" / "npm"
INSTALL_S = 300.0

OURS = Credentials("lakebed-bench", "lakebed-bench-secret")
OF_S3RVER = Credentials("S3RVER", "S3RVER")  # it has no others


class Kind(NamedTuple):
    """How a server is started in a folder; `environment` is what it needs besides."""

    program: str
    arguments: Callable[[int], Sequence[str]]
    credentials: Credentials = OURS
    keeps_alive: bool = True
    environment: Mapping[str, str] = {}


class S3Server:
    """One that has the bucket."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self._credentials = kind.credentials
        self._server = Server(kind.program, kind.arguments, folder, environment=kind.environment)
        self.port = self._server.port
        self.host = f"{HOST}:{self.port}"
        self._client = OneClient(HOST, self.port, keeps_alive=kind.keeps_alive)
        if BUCKET.encode() not in self.ask("GET", "/"):
            self.ask("PUT", f"/{BUCKET}")

    def headers(self, method: str, path: str, query: Mapping[str, str]) -> dict[str, str]:
        return signed_headers(
            method, path, host=self.host, credentials=self._credentials, query=query
        )

    def ask(
        self, method: str, path: str, body: bytes = b"", query: Mapping[str, str] | None = None
    ) -> bytes:
        """On one connection, answered before the next."""
        asked = "&".join(f"{name}={value}" for name, value in (query or {}).items())
        return self._client.ask(
            method,
            f"{path}?{asked}" if asked else path,
            body,
            headers=self.headers(method, path, query or {}),
        )

    def close(self) -> None:
        self._client.close()
        self._server.close()


def lakebed() -> Kind:
    return Kind(
        "lakebed",
        lambda port: ["--root", "root", "serve", "--no-http", "--s3-port", str(port)],
        environment={"LAKEBED_ACCESS_KEY": OURS[0], "LAKEBED_SECRET_KEY": OURS[1]},
    )


def moto() -> Kind:
    return Kind(
        "moto_server",
        lambda port: ["-H", HOST, "-p", str(port)],
        keeps_alive=False,  # its second answer does not come
    )


def rclone() -> Kind:
    credentials = ",".join(OURS)
    return Kind(
        "rclone",
        lambda port: [
            "serve",
            "s3",
            "--addr",
            f"{HOST}:{port}",
            "--auth-key",
            credentials,
            "--vfs-cache-mode",
            "off",
            "data",
        ],
    )


def s3rver() -> Kind:
    script = NPM_FOLDER / "node_modules" / "s3rver" / "bin" / "s3rver.js"
    if not script.exists():
        _install("s3rver")
    return Kind(
        "node",
        lambda port: [str(script), "-d", "data", "-a", HOST, "-p", str(port), "--silent"],
        credentials=OF_S3RVER,
    )


KINDS: Mapping[str, Callable[[], Kind]] = {
    "lakebed": lakebed,
    "moto": moto,
    "s3rver": s3rver,
    "rclone": rclone,
}


def start(name: str, folder: Path) -> S3Server:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    return S3Server(KINDS[name](), folder)


def _install(package: str) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise Unavailable("no node and npm here")
    NPM_FOLDER.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(NPM_FOLDER), package]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{package} could not be installed: {error}") from error
