"""`lakebed spark run verify` and `tier-history`: what is damaged, and what was in which tier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.spark_options import CaFile, Conf, Endpoint, Master, Remote, Wishes
from lakebed.cli.spark_run import Ground, Needs, run_job

if TYPE_CHECKING:
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.report import Report


def verify(
    context: typer.Context,
    tier2: Annotated[
        bool, typer.Option("--tier2/--no-tier2", help="Whether the cold objects of logs are read.")
    ] = True,
    mark: Annotated[
        bool, typer.Option("--mark/--no-mark", help="Whether damaged objects are marked.")
    ] = True,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
) -> None:
    """Check every checksum of logs, topics and objects, in all tiers; it works beside a writer.

    The report is that of lakebed verify. The exit code is 65 if anything is damaged.

    \b
    lakebed spark run verify
    lakebed spark run verify --no-mark --master spark://host:7077 --endpoint http://host:9001
    """

    def job(ground: Ground) -> Report:
        from lakebed.spark.jobs.verify import verify as run_verify

        return run_verify(
            ground.spark, ground.backend, tier2=tier2, mark=mark, watcher=ground.watcher
        )

    wishes = Wishes(master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file)
    # What marks opens the store itself: who only looks must not mend it by opening it.
    run_job(invocation(context), wishes, job, needs=Needs.NOTHING)


def tier_history(
    context: typer.Context,
    logs: Annotated[
        list[str] | None, typer.Argument(metavar="[LOG]...", help="Of these; else of all logs.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where tables (Parquet, CSV) and plots (PNG) are put."),
    ] = None,
    plots: Annotated[
        bool, typer.Option("--plots/--no-plots", help="Whether there are plots, with --output.")
    ] = True,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
) -> None:
    """Tell from the manifest logs how long segments were in each tier, how long hydration took,
    how often uploads were tried again, and how many bytes each tier had.

    \b
    lakebed spark run tier-history
    lakebed spark run tier-history orders --output history
    lakebed spark run tier-history --master spark://host:7077 --endpoint http://host:9001
    """

    def job(ground: Ground) -> Report:
        from lakebed.spark.jobs.tier_history import tier_history as run_history

        return run_history(
            ground.spark,
            ground.backend,
            logs or (),
            output=output,
            plots=plots,
            watcher=ground.watcher,
        )

    wishes = Wishes(master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file)
    run_job(
        invocation(context),
        wishes,
        job,
        needs=Needs.NOTHING,
        check=lambda backend: _require_logs(backend, logs or ()),
    )


def _require_logs(backend: Backend, names: Sequence[str]) -> None:
    from lakebed.base.errors import NotFound

    with backend.open() as store:
        known = store.logs()
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)[:20]) or "none"
            raise NotFound(f"{backend}: there is no log {name}; logs that there are: {there}")
