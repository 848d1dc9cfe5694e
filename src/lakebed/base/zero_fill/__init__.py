"""Zero-filling files ahead of need, so that syncs into them are short: who, when and how much.

- `decision`: whether it is worth it now, from values alone;
- `flush_share`: how busy a log is;
- `spare_budget`: how much all of a store may take for it.
"""

from lakebed.base.zero_fill.decision import FillDecision, Load, decide_fill
from lakebed.base.zero_fill.flush_share import WINDOW_NS, FlushShare
from lakebed.base.zero_fill.spare_budget import SpareBudget

__all__ = ["WINDOW_NS", "FillDecision", "FlushShare", "Load", "SpareBudget", "decide_fill"]
