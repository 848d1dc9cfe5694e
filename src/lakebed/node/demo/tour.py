"""The stations of the demo, in order, and the summary at the end."""

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
from lakebed.node.demo import crash, events, group, landing, plot, tiers, verifying
from lakebed.node.demo.events import EventSource, Ledger, Producing
from lakebed.node.demo.ground import Ground
from lakebed.node.demo.node_process import NodeProcess
from lakebed.node.demo.scale import default_event_count, scale_of
from lakebed.node.demo.summary import Summary, next_steps
from lakebed.spark.errors import SparkUnavailable
from lakebed.spark.jobs.watcher import Watcher

if TYPE_CHECKING:
    from lakebed.node.demo.landing import Lake

RETRY_S: Final = 120.0  # the client's: a restart is waited for
PLOT: Final = "demo.png"


def run(
    *, scratch: Path | None, watcher: Watcher, seed: int, event_count: int | None = None
) -> Summary:
    """Walk through it all. Counts that disagree are in the summary; what fails is raised.

    `scratch` is kept; without it all but the plot is removed in the end, however it ends.
    """
    with ExitStack() as stack:
        runner = stack.enter_context(ThreadRunner())
        count = event_count or default_event_count(is_compiled=kernels.COMPILED)
        ground = Ground(
            folder=stack.enter_context(_folder(scratch)),
            watcher=watcher,
            runner=runner,
            scale=scale_of(count),
            seed=seed,
        )
        make_folders(real_disk(), ground.root)
        settings = (ground.root / "lakebed.toml", tiers.SETTINGS.encode())
        replace_atomically(real_disk(), *settings)
        tour = _Tour(ground, is_kept=scratch is not None)
        tour.walk(stack)
        return tour.summary()


class _Tour:
    """One walk, and what is told of it."""

    def __init__(self, ground: Ground, *, is_kept: bool) -> None:
        self._ground = ground
        self._is_kept = is_kept
        self._began_ns = ground.now_ns()
        self._ledger = Ledger()
        self._held: list[tiers.Holding] = []
        self._sizes: dict[str, int] = {}
        self._power_cuts = 0
        self._plot: Path | None = None

    def walk(self, stack: ExitStack) -> None:
        ground, ledger = self._ground, self._ledger
        node = self._start_node(stack)
        store = stack.enter_context(_client(node))
        start_ms = ground.runner.clock.wall_ns() // NS_PER_MS
        topic = store.topic(events.TOPIC, partitions=events.PARTITIONS)
        source = EventSource(seed=ground.seed, start_ms=start_ms)
        producing = Producing(source, topic, ledger)
        events.produce(ground, producing)
        produced = list(ledger.moments)
        settled = group.settle(ground, topic, event_count=ledger.event_count)
        self._held = tiers.roll(ground, store)
        lake = self._open_lake(stack, node)
        landed_count = ledger.event_count
        if lake is not None:
            landing.land_and_query(ground, lake, ledger)
        outage = crash.crash(ground, node, producing)
        group.lease_again(ground, topic, settled)
        if lake is not None:
            landing.land_the_rest(ground, lake, ledger, landed_count=landed_count)
        self._measure(store, has_table=lake is not None)
        self._stop_node(node)
        verifying.verify(ground, event_count=ledger.event_count)
        self._cut_power()
        self._draw(produced, ledger.moments[len(produced) :], outage)

    def summary(self) -> Summary:
        ground = self._ground
        has_table = "table" in self._sizes
        root = ground.root if self._is_kept else None
        return Summary(
            seed=ground.seed,
            is_compiled=kernels.COMPILED,
            seconds=ground.seconds_since(self._began_ns),
            checks=tuple(ground.checks),
            rates=ground.rates,
            sizes=self._sizes,
            tiers=tuple(self._held),
            power_cuts=self._power_cuts,
            left_out=tuple(ground.left_out),
            plot=None if self._plot is None else str(self._plot),
            folder=str(ground.folder) if self._is_kept else None,
            next_steps=next_steps(root, program=_program(), has_table=has_table),
        )

    def _start_node(self, stack: ExitStack) -> NodeProcess:
        ground = self._ground
        ground.watcher.begin("starting a node")
        node = NodeProcess(
            ground.root, folder=ground.folder, runner=ground.runner, environment=os.environ
        )
        stack.enter_context(node)
        kind = "compiled" if kernels.COMPILED else "reference (slow: no compiler was there)"
        ground.tell("node", f"S3 on {node.told.s3}, HTTP API on {node.told.http}, {kind} kernels")
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
        """What is where."""
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
        ground = self._ground
        try:
            from lakebed.node.demo.power_cut import cut_power_everywhere
        except ImportError:
            ground.leave_out("power", "the simulated disk needs lakebed[simulation]")
            return
        ground.watcher.begin("cutting the power of a simulated disk")
        with _quiet("lakebed"):  # what recovery says of a thousand wrecks
            self._power_cuts = cut_power_everywhere(ground.seed)
        ground.tell(
            "power",
            f"cut {self._power_cuts:,} times on a simulated disk (seed {ground.seed}): "
            "nothing acknowledged was lost",
        )

    def _draw(
        self, produced: list[events.Moment], crashed: list[events.Moment], outage: crash.Outage
    ) -> None:
        ground = self._ground
        ground.watcher.begin("drawing")
        path = ground.folder / PLOT if self._is_kept else _new_plot()
        try:
            plot.draw(path, produced=produced, crashed=crashed, outage=outage, held=self._held)
        except ImportError:
            if not self._is_kept:
                real_disk().unlink(path)
            ground.leave_out("plot", "matplotlib is not installed: install lakebed[spark]")
            return
        self._plot = path


def _client(node: NodeProcess) -> RemoteStore:
    told = node.told
    store = connect(
        told.http, access_key=told.access_key, secret_key=told.secret_key, retry_s=RETRY_S
    )
    assert isinstance(store, RemoteStore), "of a URL"
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
        raise DiskError("demo", folder, why="there is something in it: give a new folder")
    yield folder


def _new_plot() -> Path:
    """It stays: nobody asked for the folder, but everybody is told where this is."""
    descriptor, name = tempfile.mkstemp(prefix="lakebed-demo-", suffix=".png")
    os.close(descriptor)
    return Path(name)


def _program() -> str:
    """How this program is called from a shell."""
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
