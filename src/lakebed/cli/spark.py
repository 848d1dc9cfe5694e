"""`lakebed spark run JOB`: runs jobs over whole data sets on Spark.

A job runs by default in Spark on this machine, with `--master` on a Spark cluster, and with
`--remote` on a Spark Connect server. It shows its progress on a terminal, and a summary at the end.
"""

from __future__ import annotations

import typer

from lakebed.cli import spark_checks, spark_land, spark_transfer

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Run jobs on Spark: land, verify, tier-history, replay, export, import.",
)
jobs = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Run a job: locally, on a Spark master, or on a Spark Connect server.",
)
app.add_typer(jobs, name="run")
jobs.command()(spark_land.land)
jobs.command()(spark_checks.verify)
jobs.command("tier-history")(spark_checks.tier_history)
jobs.command()(spark_transfer.replay)
jobs.command()(spark_transfer.export)
jobs.command("import")(spark_transfer.import_)


@app.callback()
def spark() -> None:
    """Run jobs on Spark: land, verify, tier-history, replay, export, import."""
