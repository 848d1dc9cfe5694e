"""Fills spare segment files with zeros before they are used, which makes later syncs faster.

- `decision`: decides whether a spare segment is filled now;
- `flush_share`: measures how busy a log is;
- `spare_budget`: limits the bytes that the spare segments of all logs use.
"""

from lakebed.base.zero_fill.decision import FillDecision, Load, decide_fill
from lakebed.base.zero_fill.flush_share import WINDOW_NS, FlushShare
from lakebed.base.zero_fill.spare_budget import SpareBudget

__all__ = ["WINDOW_NS", "FillDecision", "FlushShare", "Load", "SpareBudget", "decide_fill"]
