"""`lakebed config`: shows settings and where they come from, and checks them."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from lakebed.base.settings import FILE_NAME, Settings
from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.report import Column, Rows, Text, Value
from lakebed.node.config import node_settings
from lakebed.version import VERSION

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Show and check the settings of a store."
)


@app.command()
def show(context: typer.Context) -> None:
    """Show every setting and where it comes from, and the features of this installation.

    \b
    Examples:
      Show the settings of a store:
        lakebed --root data config show
    """
    run = invocation(context)
    exists = run.root_exists()
    settings = settings_of(run.root)
    facts = _facts(run, settings, exists=exists)
    shown = [setting.shown() for setting in settings]
    run.output.show(
        *(Value(name, fact) for name, (fact, _) in facts.items()),
        Value("settings", shown),
        Text(*(f"{name:<8} {text}" for name, (_, text) in facts.items()), ""),
        Rows("", SETTINGS, shown),
    )


@app.command()
def check(context: typer.Context) -> None:
    """Check the settings in lakebed.toml and the environment, and report the first error.

    \b
    Examples:
      Check the settings of a store:
        lakebed --root data config check
    """
    run = invocation(context)
    root = run.require_root()
    settings = settings_of(root)
    path = root / FILE_NAME
    source = (
        f"{path}: no such file, settings come from the environment and the defaults"
        if settings.file is None
        else f"{path}: ok"
    )
    run.output.show(
        Value("ok", True), Value("root", run.root), Value("file", settings.file), Text(source)
    )


def settings_of(root: Path) -> Settings:
    """Reads and checks the settings of a node: from the environment, else from lakebed.toml, else
    the defaults."""
    return node_settings(root, environment=os.environ)


# `show` imports what only it needs: `check` runs in scripts, before every start.


def _facts(run: Invocation, settings: Settings, *, exists: bool) -> dict[str, tuple[object, str]]:
    """Returns facts about this installation by name, each as a JSON value and as text."""
    from lakebed import kernels

    features = sorted(kernels.features())
    kind = "compiled" if kernels.COMPILED else "reference"
    return {
        "version": (VERSION, VERSION),
        "root": (
            {"path": run.root, "origin": run.place.origin, "exists": exists},
            f"{run.root} ({run.place.origin}{'' if exists else ', does not exist yet'})",
        ),
        "file": (settings.file, str(settings.file or "none")),
        "kernels": (
            {"kind": kind, "features": features},
            f"{kind} ({', '.join(features) or 'no features'})",
        ),
        "java": _java(),
    }


def _java() -> tuple[object, str]:
    from lakebed.spark import java
    from lakebed.spark.errors import SparkUnavailable

    try:
        runtime = java.find()
    except SparkUnavailable as error:
        return {"version": None, "problem": str(error)}, f"none: {error}"
    home, origin = runtime.candidate.home, runtime.candidate.origin
    document = {"version": runtime.version, "home": home, "origin": origin}
    return document, f"{runtime.version} ({home}, {origin})"


SETTINGS = (
    Column("", lambda setting: f"{setting.section}.{setting.name}", "setting"),
    Column("", lambda setting: str(setting.value), "value"),
    Column("", "origin", "origin"),
)
