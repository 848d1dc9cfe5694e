"""Writes the tables of the job `tier-history` as Parquet and CSV files, as text and as plots."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakebed.base.files import make_folders
from lakebed.kernels.disk import real_disk

if TYPE_CHECKING:
    import pyarrow as pa

_PERCENTILES = ("p50", "p90", "p99")
_LOGS_PLOTTED_MAX = 8  # plotted one below the other
_MIB = 1 << 20


def write_tables(tables: Mapping[str, pa.Table], output: str | os.PathLike[str]) -> list[str]:
    """Writes each table as a Parquet file and a CSV file to the folder `output`.

    Existing files are replaced. Returns the paths of the files.
    """
    from pyarrow import csv, parquet

    folder = Path(output)
    make_folders(real_disk(), folder)
    written = []
    for name, table in tables.items():
        parquet.write_table(table, folder / f"{name}.parquet")
        csv.write_csv(table, folder / f"{name}.csv")
        written += [str(folder / f"{name}.parquet"), str(folder / f"{name}.csv")]
    return written


def write_plots(tables: Mapping[str, pa.Table], output: str | os.PathLike[str]) -> list[str]:
    """Writes plots of the tables as PNG files to the folder `output`. Returns their paths.

    There is no plot for `upload_retries`, or for a table without data to plot.
    """
    folder = Path(output)
    drawn = {
        "time_in_tier": _bars(
            tables["time_in_tier"],
            by="tier",
            unit="s",
            title="Time in each tier (ended stays)",
        ),
        "hydration_latency": _bars(
            tables["hydration_latency"], by="source_tier", unit="ms", title="Hydration latency"
        ),
        "bytes_per_tier": _bytes(tables["bytes_per_tier"]),
    }
    written = []
    for name, figure in drawn.items():
        if figure is not None:
            path = folder / f"{name}.png"
            figure.savefig(path, dpi=120)
            written.append(str(path))
    return written


def table_lines(table: pa.Table) -> list[str]:
    """Formats a table as text, with aligned columns and a header line."""
    rows = [table.column_names]
    rows += [[_text(value) for value in row.values()] for row in table.to_pylist()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _figure(height: float) -> Any:
    """Creates an empty figure of this height, which needs no display.

    It does not use pyplot, which would keep the figure in memory.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _bars(table: pa.Table, *, by: str, unit: str, title: str) -> Any:
    """Plots the percentiles of each row as a group of bars.

    Returns None if no row has percentiles.
    """
    rows = [row for row in table.to_pylist() if row[f"p50_{unit}"] is not None]
    if not rows:
        return None
    figure = _figure(4)
    axes = figure.add_subplot()
    width = 0.8 / len(_PERCENTILES)
    for index, name in enumerate(_PERCENTILES):
        positions = [position + (index - 1) * width for position in range(len(rows))]
        axes.bar(positions, [row[f"{name}_{unit}"] for row in rows], width, label=name)
    axes.set_xticks(range(len(rows)), [_label(row["log"], row[by]) for row in rows])
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(unit)
    axes.set_title(title)
    axes.legend()
    return figure


def _bytes(table: pa.Table) -> Any:
    """Plots the bytes in each tier over time, with one chart per log and the tiers stacked.

    Plots only the first eight logs. Returns None if the table is empty.
    """
    rows = table.to_pylist()
    logs: Sequence[str] = list(dict.fromkeys(row["log"] for row in rows))[:_LOGS_PLOTTED_MAX]
    if not logs:
        return None
    figure = _figure(1 + 3 * len(logs))
    for number, log in enumerate(logs, start=1):
        axes = figure.add_subplot(len(logs), 1, number)
        of_log = [row for row in rows if row["log"] == log]
        times = [row["at"] for row in of_log]
        sizes = [[row[f"tier{tier}_bytes"] / _MIB for row in of_log] for tier in range(3)]
        axes.stackplot(times, *sizes, labels=[f"Tier {tier}" for tier in range(3)], step="post")
        axes.set_title(f"Bytes in each tier of {_plain(log)}")
        axes.set_ylabel("MiB")
        axes.legend(loc="upper left")
    return figure


def _label(log: str, tier: int) -> str:
    return f"{_plain(log)}\nTier {tier}"


def _plain(log: str) -> str:
    """Escapes dollar signs in the name of a log, because Matplotlib would show a formula."""
    return log.replace("$", r"\$")
