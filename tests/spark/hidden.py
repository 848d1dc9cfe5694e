"""A folder that some programs cannot see, though they run on this machine.

    with hidden_folder() as hidden:
        ...                                  # make a store in hidden.path / "store"
        hidden.close_off()
        subprocess.Popen([*hidden.command_prefix, ...])   # it cannot see what is in there

Who runs the tests decides how. Root closes the folder and runs those programs as another user; or,
where that user could not run our Python, as itself without its capabilities. Anybody else gives
them a namespace of their own, where something empty stands in the folder's place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NOBODY: Final = 65534

_AS_NOBODY: Final = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
_WITHOUT_CAPABILITIES: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
_ELSEWHERE: Final = ("unshare", "--user", "--map-root-user", "--mount")
_COVERED: Final = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
# As the workers do it: a shell first. What `setpriv` itself starts, it finds with all its rights.
_STARTING: Final = ("/bin/sh", "-c", 'exec "$0" "$@"')
_LOOK: Final = """
import os, sys
import lakebed.spark.registry, pyarrow, pyspark
if os.path.exists(sys.argv[1]):
    sys.exit("it is seen")
"""


class HiddenFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.command_prefix: list[str] = []

    @property
    def is_other_user(self) -> bool:
        return self.command_prefix == [*_AS_NOBODY]

    def close_off(self) -> None:
        """From now on; raises if there is no way to do it."""
        canary = self.path / "canary"
        canary.touch()
        if os.geteuid() == 0:
            self.path.chmod(0)  # root itself goes on as before
        problems = []
        for prefix in self._prefixes():
            problem = _problem(prefix, canary)
            if problem is None:
                self.command_prefix = prefix
                return
            problems.append(f"{prefix[:3]}: {problem}")
        raise AssertionError(f"the folder cannot be hidden: {problems}")

    def give(self, folder: Path) -> Path:
        """Let those programs write into a new folder."""
        folder.mkdir()
        if self.is_other_user:
            os.chown(folder, NOBODY, NOBODY)
        return folder

    def remove(self) -> None:
        self.path.chmod(0o700)
        shutil.rmtree(self.path.parent, ignore_errors=True)

    def _prefixes(self) -> list[list[str]]:
        if os.geteuid() == 0:
            return [[*_AS_NOBODY], [*_WITHOUT_CAPABILITIES]]
        return [[*_ELSEWHERE, "/bin/sh", "-c", _COVERED, str(self.path)]]


@contextlib.contextmanager
def hidden_folder() -> Iterator[HiddenFolder]:
    """Its parent can be looked into by everybody, other than a test's own folder."""
    parent = Path(tempfile.mkdtemp(prefix="lakebed-cluster-"))
    parent.chmod(0o755)
    hidden = HiddenFolder(parent / "hidden")
    hidden.path.mkdir(mode=0o700)
    try:
        yield hidden
    finally:
        hidden.remove()


def _problem(prefix: list[str], canary: Path) -> str | None:
    """Why it does not do; None if our Python runs there, and sees nothing."""
    try:
        done = subprocess.run(
            [*prefix, *_STARTING, sys.executable, "-c", _LOOK, str(canary)],
            check=False,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
        )
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr[-300:]
