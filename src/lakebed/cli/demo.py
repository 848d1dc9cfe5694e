"""`lakebed demo`: a guided run on a scratch folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.node.demo import run

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    context: typer.Context,
    scratch: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Work here and keep it; else a folder that is removed."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same run.")] = 1,
) -> None:
    """Write, crash, recover and verify, and tell what happens."""
    output = invocation(context).output
    result = run(scratch=scratch, report=output.line, seed=seed)
    output.result(result, lines=())
