"""What every command is given: the root, where that came from, and the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import typer

from lakebed.base.errors import BadName, NotFound, from_os_error
from lakebed.cli.output import Output

ROOT_VARIABLE = "LAKEBED_ROOT"
ROOT_DEFAULT = "lakebed-data"


class RootPlace(NamedTuple):
    """A root and who named it."""

    path: Path
    origin: str


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One run of one command."""

    root: Path
    root_origin: str
    output: Output

    def root_exists(self) -> bool:
        """Whether the root is there; `BadName` if something other than a folder is."""
        try:
            # `Path.is_dir` would take a root that may not be looked at for one that is missing.
            self.root.stat()
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError):
                raise BadName(f"{self.root}: {error}") from error
            raise from_os_error(error, operation="open", path=self.root) from error
        if not self.root.is_dir():
            raise BadName(f"{self.root}: is a file, the root must be a folder")
        return True

    def require_root(self) -> Path:
        """The root; `NotFound` if it is missing."""
        if not self.root_exists():
            raise NotFound(f"{self.root}: no such root (from {self.root_origin})")
        return self.root


def invocation(context: typer.Context) -> Invocation:
    """The invocation that the top level left in the context."""
    found = context.obj
    assert isinstance(found, Invocation)
    return found


def resolve_root(option: str | None, *, environment: Mapping[str, str]) -> RootPlace:
    """The root as given, or from the environment, or the default; an empty variable is unset."""
    if option is not None:
        if not option:
            raise BadName("--root is empty, expected a folder")
        return RootPlace(Path(option), "--root")
    variable = environment.get(ROOT_VARIABLE, "")
    if variable:
        return RootPlace(Path(variable), ROOT_VARIABLE)
    return RootPlace(Path(ROOT_DEFAULT), "default")
