"""`lakebed spark run verify` and `lakebed spark run tier-history`: find damage, and analyse
tiers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.spark_options import CaFile, Conf, Endpoint, Master, Remote, SparkOptions
from lakebed.cli.spark_run import JobContext, StoreAccess, run_job

if TYPE_CHECKING:
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.report import Report


def verify(
    context: typer.Context,
    tier2: Annotated[
        bool,
        typer.Option(
            "--tier2/--no-tier2",
            help="Whether to verify the objects of logs in Tier 2 too. Default: yes.",
        ),
    ] = True,
    mark: Annotated[
        bool,
        typer.Option(
            "--mark/--no-mark",
            help="Whether to mark damaged objects in the store, and to remove marks from undamaged "
            "objects. Default: yes.",
        ),
    ] = True,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
) -> None:
    """Verify the checksums of a store on Spark: logs in all tiers, topics, groups and objects.

    Reports the same findings as lakebed verify. With --endpoint, only one copy of each segment of a
    log is checked, and no indexes, manifests or groups; lakebed verify on the node checks them all.
    The exit code is 65 if anything is damaged or could not be checked, or if a recorded loss is not
    acknowledged. Works while another process writes.

    \b
    Examples:
      Verify the store on this machine:
        lakebed spark run verify
      Verify a node on a cluster, and mark nothing:
        lakebed spark run verify --no-mark --master spark://host:7077 --endpoint http://host:9001
    """

    def job(resources: JobContext) -> Report:
        from lakebed.spark.jobs.verify import verify as run_verify

        return run_verify(
            resources.spark, resources.backend, tier2=tier2, mark=mark, watcher=resources.watcher
        )

    options = SparkOptions(
        master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file
    )
    # Marking opens the store itself: verification alone must not repair it by opening it.
    run_job(invocation(context), options, job, needs=StoreAccess.READ)


def tier_history(
    context: typer.Context,
    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LOG]...", help="The names of logs. Default: all logs."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write tables (Parquet, CSV) and plots (PNG) to this folder."
        ),
    ] = None,
    plots: Annotated[
        bool,
        typer.Option(
            "--plots/--no-plots", help="With --output: whether to draw plots. Default: yes."
        ),
    ] = True,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
) -> None:
    """Analyse the manifest logs: time and bytes in each tier, hydration, and upload retries.

    The exit code is 65 if part of a manifest log is damaged.

    \b
    Examples:
      Analyse all logs:
        lakebed spark run tier-history
      Write tables and plots of one log:
        lakebed spark run tier-history orders --output history
      Analyse a node on a cluster:
        lakebed spark run tier-history --master spark://host:7077 --endpoint http://host:9001
    """

    def job(resources: JobContext) -> Report:
        from lakebed.spark.jobs.tier_history import tier_history as run_history

        return run_history(
            resources.spark,
            resources.backend,
            logs or (),
            output=output,
            plots=plots,
            watcher=resources.watcher,
        )

    options = SparkOptions(
        master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file
    )
    run_job(
        invocation(context),
        options,
        job,
        needs=StoreAccess.READ,
        check=lambda backend: _require_logs(backend, logs or ()),
    )


def _require_logs(backend: Backend, names: Sequence[str]) -> None:
    from lakebed.base.errors import NotFound

    with backend.open() as store:
        known = store.logs()
    for name in names:
        if name not in known:
            some = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
            raise NotFound(f"the store {backend} has no log {name}; it has: {some or 'none'}")
