"""The context in which a command runs: the location of its store, and its output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import typer

from lakebed.base.errors import BadName, InputError
from lakebed.cli.output import Output
from lakebed.cli.places import ROOT_OPTION, Node, Place, Root

ROOT_VARIABLE = "LAKEBED_ROOT"
ROOT_DEFAULT = "lakebed-data"


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One run of one command."""

    output: Output
    root_option: str | None = None  # a folder or a URL
    ca_file: Path | None = None
    command: str = "lakebed"

    @cached_property
    def place(self) -> Place:
        return resolve_place(self.root_option, environment=os.environ, ca_file=self.ca_file)

    def local_root(self, what: str = "") -> Root:
        """Returns the root of the store for `what`: a command or option that needs the files.

        `what` is named in errors; by default it is this command. Raises `Usage` if the store is at
        a URL.
        """
        return self.place.local(what or self.command)

    @property
    def root(self) -> Path:
        return self.local_root().path

    def root_exists(self) -> bool:
        """Returns whether the root exists. Raises `BadName` if its path is not a folder."""
        return self.local_root().exists()

    def require_root(self) -> Path:
        """Returns the path of the root. Raises `NotFound` if it does not exist."""
        return self.local_root().require()


def invocation(context: typer.Context) -> Invocation:
    """Returns the invocation that the top-level command stored in the context, with the name of the
    context's command."""
    run = context.obj
    assert isinstance(run, Invocation)
    return replace(run, command=context.command_path)


def resolve_place(
    option: str | None, *, environment: Mapping[str, str], ca_file: Path | None = None
) -> Place:
    """Returns the location of the store: from the option `--root`, else from the variable
    `LAKEBED_ROOT`, else the default."""
    if option is not None:
        if not option:
            raise BadName("--root is empty: give a folder or a URL")
        return _place(option, origin=ROOT_OPTION, ca_file=ca_file)
    variable = environment.get(ROOT_VARIABLE, "")
    if variable:
        return _place(variable, origin=ROOT_VARIABLE, ca_file=ca_file)
    return _place(ROOT_DEFAULT, origin="default", ca_file=ca_file)


def _place(text: str, *, origin: str, ca_file: Path | None) -> Place:
    if "://" not in text:
        if ca_file is not None:
            raise InputError(
                f"--ca-file can only be used with an https:// URL, and {text} is a folder"
            )
        return Root(path=Path(text), origin=origin)
    from lakebed.client.address import address_of

    address_of(text, ca_file=ca_file)  # reports a bad URL before anything is done
    return Node(url=text, origin=origin, ca_file=ca_file)
