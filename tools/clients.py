"""Install the clients that the tests run but that cannot live in this environment.

s3fs wants an older botocore than boto3 has, so it gets an environment of its own, with the versions
of `clients.txt`. The SDK for JavaScript comes from npm, with the versions of `clients.json`; a
machine without Node 20 or newer goes without, and the tests of it are skipped.

Both are installed again when their versions change, and never otherwise. Silent if they are there.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TOOLS = Path(__file__).parent
FOLDER = Path(sys.prefix) / "clients"
NODE_MAJOR_MIN = 20


def main() -> int:
    try:
        _once("s3fs", TOOLS / "clients.txt", _install_s3fs)
    except subprocess.CalledProcessError as error:
        print(f"lakebed: s3fs was not installed: {error}", file=sys.stderr)
        return 1
    if not has_node():
        print(f"no Node {NODE_MAJOR_MIN}: the SDK for JavaScript is not tested")
        return 0
    try:
        _once("node", TOOLS / "clients.json", _install_node)
    except subprocess.CalledProcessError as error:
        print(f"npm has not installed the SDK for JavaScript, it is not tested: {error}")
    return 0


def has_node() -> bool:
    """Whether there are a Node that is new enough, and npm."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    said = subprocess.run([node, "--version"], check=False, capture_output=True, text=True).stdout
    major = said.strip().removeprefix("v").partition(".")[0]
    return major.isdigit() and int(major) >= NODE_MAJOR_MIN


def _once(name: str, versions: Path, install: Callable[[Path, Path], None]) -> None:
    folder = FOLDER / name
    stamp = folder / f".installed-{hashlib.sha256(versions.read_bytes()).hexdigest()[:16]}"
    if stamp.exists():
        return
    print(f"installing {name}, a client for the tests", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    install(folder, versions)
    stamp.touch()


def _install_s3fs(folder: Path, versions: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", "-r", str(versions)], check=True)


def _install_node(folder: Path, versions: Path) -> None:
    shutil.copy(versions, folder / "package.json")
    npm = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run(npm, cwd=folder, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
