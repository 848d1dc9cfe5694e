"""`lakebed spark run JOB`: what works on whole data sets, on Spark.

Local by default; on any Spark master by `--master`, on a Spark Connect server by `--remote`. A job
tells on a terminal how far it is, and a summary in the end.
"""

from __future__ import annotations

import typer

from lakebed.cli import spark_checks, spark_land, spark_transfer

app = typer.Typer(
    add_completion=False, help="Run jobs on Spark: land, verify, replay, export and more."
)
jobs = typer.Typer(add_completion=False, help="Run a job: local, on a Spark master, or by Connect.")
app.add_typer(jobs, name="run")
jobs.command()(spark_land.land)
jobs.command()(spark_checks.verify)
jobs.command("tier-history")(spark_checks.tier_history)
jobs.command()(spark_transfer.replay)
jobs.command()(spark_transfer.export)
jobs.command("import")(spark_transfer.import_)


@app.callback()
def spark() -> None:
    """Run jobs on Spark: land, verify, replay, export and more."""
