"""Zero-filling of segment files ahead of need, which makes syncs into them shorter.

- `decision`: whether it pays now, as a pure function;
- `flush_share`: how busy a log is;
- `spare_budget`: how many bytes all logs of a store may use for it.
"""

from lakebed.base.zero_fill.decision import FillDecision, Load, decide_fill
from lakebed.base.zero_fill.flush_share import WINDOW_NS, FlushShare
from lakebed.base.zero_fill.spare_budget import SpareBudget

__all__ = ["WINDOW_NS", "FillDecision", "FlushShare", "Load", "SpareBudget", "decide_fill"]
