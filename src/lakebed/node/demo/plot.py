"""Plots a run of the demo: the rate of acknowledged events, and the bytes in each tier."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakebed.base.clock import NS_PER_S
from lakebed.base.units import MIB
from lakebed.node.demo.events import Moment, rates_between
from lakebed.node.demo.tiers import TIERS

if TYPE_CHECKING:
    from lakebed.node.demo.crash import Outage
    from lakebed.node.demo.tiers import TierSizes

_STEP_NS: Final = NS_PER_S // 4
_STEP_S: Final = _STEP_NS / NS_PER_S


def draw(
    path: Path,
    *,
    produced: Sequence[Moment],
    crashed: Sequence[Moment],
    outage: Outage,
    held: Sequence[TierSizes],
) -> None:
    """Writes the plot as a PNG file. Raises `ImportError` if matplotlib is missing.

    `produced` are the moments of the first production, `crashed` those of the production during
    which the node was killed, and `held` are the bytes in each tier after each step.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it logs messages about its caches
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 10), layout="constrained")
    FigureCanvasAgg(figure)
    top, middle, bottom = figure.subplots(3, 1)
    _draw_rates(top, produced, "Events produced")
    _draw_rates(middle, crashed, "Events produced while the node was killed and started again")
    since_ns = crashed[0].at_ns
    killed, back, acknowledged = ((at_ns - since_ns) / NS_PER_S for at_ns in outage)
    middle.axvspan(killed, back, color="tab:red", alpha=0.2, label="no node")
    middle.axvspan(back, acknowledged, color="tab:orange", alpha=0.2, label="opens the topic")
    middle.legend()
    _draw_tiers(bottom, held)
    figure.savefig(path, dpi=120)


def _draw_rates(axes: Any, moments: Sequence[Moment], title: str) -> None:
    rates = rates_between(moments, step_ns=_STEP_NS)
    axes.stairs([rate for _, rate in rates], [*(at for at, _ in rates), len(rates) * _STEP_S])
    axes.set_title(title)
    axes.set_xlabel("s")
    axes.set_ylabel("events/s")
    axes.set_ylim(bottom=0)


def _draw_tiers(axes: Any, held: Sequence[TierSizes]) -> None:
    width = 0.25
    for tier in TIERS:
        sizes = [holding.sizes[tier] / MIB for holding in held]
        places = [place + (tier - 1) * width for place in range(len(held))]
        axes.bar(places, sizes, width, label=f"Tier {tier}")
    axes.set_xticks(range(len(held)), [holding.step for holding in held])
    axes.set_title("What each tier holds of the log")
    axes.set_ylabel("MiB")
    axes.legend()
