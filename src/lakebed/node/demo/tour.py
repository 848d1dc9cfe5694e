"""Runs the stations of the demo in order, and returns a summary."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakebed import kernels
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import DiskError
from lakebed.base.files import make_folders, replace_atomically
from lakebed.base.runner import ThreadRunner
from lakebed.client.store import RemoteStore
from lakebed.host.connect import connect
from lakebed.kernels.disk import real_disk
from lakebed.node.demo import crash, events, group, landing, plot, tiers, verification
from lakebed.node.demo.context import DemoContext
from lakebed.node.demo.events import EventSource, Ledger, Production
from lakebed.node.demo.node_process import NodeProcess
from lakebed.node.demo.scale import default_event_count, scale_of
from lakebed.node.demo.summary import Summary, next_steps
from lakebed.spark.errors import SparkUnavailable
from lakebed.spark.jobs.watcher import Watcher

if TYPE_CHECKING:
    from lakebed.node.demo.landing import Lake

RETRY_S: Final = 120.0  # how long the client retries while the node restarts
PLOT: Final = "demo.png"


def run(
    *, scratch: Path | None, watcher: Watcher, seed: int, event_count: int | None = None
) -> Summary:
    """Runs all stations. Failed checks are in the summary; errors are raised.

    The folder `scratch` is kept. If it is None, a temporary folder is used, and everything but the
    plot is removed at the end, even after an error.
    """
    with ExitStack() as stack:
        runner = stack.enter_context(ThreadRunner())
        count = event_count or default_event_count(is_compiled=kernels.COMPILED)
        context = DemoContext(
            folder=stack.enter_context(_folder(scratch)),
            watcher=watcher,
            runner=runner,
            scale=scale_of(count),
            seed=seed,
        )
        make_folders(real_disk(), context.root)
        settings = (context.root / "lakebed.toml", tiers.SETTINGS.encode())
        replace_atomically(real_disk(), *settings)
        tour = _Tour(context, is_kept=scratch is not None)
        tour.walk(stack)
        return tour.summary()


class _Tour:
    """One run of all stations, and its results."""

    def __init__(self, context: DemoContext, *, is_kept: bool) -> None:
        self._ground = context
        self._is_kept = is_kept
        self._began_ns = context.now_ns()
        self._ledger = Ledger()
        self._held: list[tiers.TierSizes] = []
        self._sizes: dict[str, int] = {}
        self._power_cuts = 0
        self._plot: Path | None = None

    def walk(self, stack: ExitStack) -> None:
        context, ledger = self._ground, self._ledger
        node = self._start_node(stack)
        store = stack.enter_context(_client(node))
        start_ms = context.runner.clock.wall_ns() // NS_PER_MS
        topic = store.topic(events.TOPIC, partitions=events.PARTITIONS)
        source = EventSource(seed=context.seed, start_ms=start_ms)
        producing = Production(source, topic, ledger)
        events.produce(context, producing)
        produced = list(ledger.moments)
        settled = group.settle(context, topic, event_count=ledger.event_count)
        self._held = tiers.roll(context, store)
        lake = self._open_lake(stack, node)
        landed_count = ledger.event_count
        if lake is not None:
            landing.land_and_query(context, lake, ledger)
        outage = crash.crash(context, node, producing)
        group.lease_again(context, topic, settled)
        if lake is not None:
            landing.land_the_rest(context, lake, ledger, landed_count=landed_count)
        self._measure(store, has_table=lake is not None)
        self._stop_node(node)
        verification.verify(context, event_count=ledger.event_count)
        self._cut_power()
        self._draw(produced, ledger.moments[len(produced) :], outage)

    def summary(self) -> Summary:
        context = self._ground
        has_table = "table" in self._sizes
        root = context.root if self._is_kept else None
        return Summary(
            seed=context.seed,
            is_compiled=kernels.COMPILED,
            seconds=context.seconds_since(self._began_ns),
            checks=tuple(context.checks),
            rates=context.rates,
            sizes=self._sizes,
            tiers=tuple(self._held),
            power_cuts=self._power_cuts,
            left_out=tuple(context.left_out),
            plot=None if self._plot is None else str(self._plot),
            folder=str(context.folder) if self._is_kept else None,
            next_steps=next_steps(root, program=_program(), has_table=has_table),
        )

    def _start_node(self, stack: ExitStack) -> NodeProcess:
        context = self._ground
        context.watcher.begin("starting a node")
        node = NodeProcess(
            context.root, folder=context.folder, runner=context.runner, environment=os.environ
        )
        stack.enter_context(node)
        kind = "compiled" if kernels.COMPILED else "reference (slow, not compiled)"
        context.report(
            "node",
            f"S3 on {node.ready_line.s3}, HTTP API on {node.ready_line.http}, {kind} kernels",
        )
        return node

    def _stop_node(self, node: NodeProcess) -> None:
        self._ground.watcher.begin("stopping the node")
        self._ground.check("exit code of the node", expected=0, found=node.stop())

    def _open_lake(self, stack: ExitStack, node: NodeProcess) -> Lake | None:
        try:
            return stack.enter_context(landing.open_lake(self._ground, node.s3_options()))
        except SparkUnavailable as error:
            self._ground.leave_out("spark", str(error))
            return None

    def _measure(self, store: RemoteStore, *, has_table: bool) -> None:
        """Records the sizes of the events, the topic and the table."""
        topic = store.topic(events.TOPIC)
        self._sizes["events"] = self._ledger.size_bytes
        self._sizes["topic"] = sum(
            segment.end for partition in topic.partitions for segment in partition.segments()
        )
        if has_table:
            prefix = landing.TABLE.removeprefix(f"{landing.BUCKET}/") + "/"
            objects = store.bucket(landing.BUCKET).list(prefix)
            self._sizes["table"] = sum(one.size for one in objects)

    def _cut_power(self) -> None:
        context = self._ground
        try:
            from lakebed.node.demo.power_cut import cut_power_everywhere
        except ImportError:
            context.leave_out("power", "the simulated disk needs lakebed[simulation]")
            return
        context.watcher.begin("cutting the power of a simulated disk")
        with _quiet("lakebed"):  # hides the recovery logs of a thousand crashes
            self._power_cuts = cut_power_everywhere(context.seed)
        context.report(
            "power",
            f"cut, or the process killed, {self._power_cuts:,} times on a simulated disk "
            f"(seed {context.seed}): nothing acknowledged was lost",
        )

    def _draw(
        self, produced: list[events.Moment], crashed: list[events.Moment], outage: crash.Outage
    ) -> None:
        context = self._ground
        context.watcher.begin("drawing")
        path = context.folder / PLOT if self._is_kept else _new_plot()
        try:
            plot.draw(path, produced=produced, crashed=crashed, outage=outage, held=self._held)
        except ImportError:
            if not self._is_kept:
                real_disk().unlink(path)
            context.leave_out("plot", "matplotlib is not installed: install lakebed[spark]")
            return
        self._plot = path


def _client(node: NodeProcess) -> RemoteStore:
    ready_line = node.ready_line
    store = connect(
        ready_line.http,
        access_key=ready_line.access_key,
        secret_key=ready_line.secret_key,
        retry_s=RETRY_S,
    )
    assert isinstance(store, RemoteStore), "a URL is served by a remote store"
    return store


@contextmanager
def _folder(scratch: Path | None) -> Iterator[Path]:
    if scratch is None:
        with tempfile.TemporaryDirectory(
            prefix="lakebed-demo-", ignore_cleanup_errors=True
        ) as name:
            yield Path(name)
        return
    folder = scratch.absolute()
    disk = real_disk()
    if disk.is_folder(folder) and disk.names(folder):
        raise DiskError("demo", folder, why="the folder is not empty: use a new folder")
    yield folder


def _new_plot() -> Path:
    """Creates a file for the plot outside the scratch folder, so that it is kept, and returns its
    path.
    """
    descriptor, name = tempfile.mkstemp(prefix="lakebed-demo-", suffix=".png")
    os.close(descriptor)
    return Path(name)


def _program() -> str:
    """Returns the shell command that runs this program."""
    if shutil.which("lakebed") is not None:
        return "lakebed"
    return f"{shlex.quote(sys.executable)} -m lakebed.cli"


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
