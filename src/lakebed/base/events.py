"""Log lines that programs can read: a name and facts, on the ordinary `logging`.

    event(_log, "segment_sealed", log="orders", segment_id=3)

A plain handler prints `segment_sealed log=orders segment_id=3`; a structured one finds the name in
`record.event` and the facts in `record.facts`.
"""

from __future__ import annotations

import logging


def event(
    logger: logging.Logger, name: str, /, *, level: int = logging.INFO, **facts: object
) -> None:
    """Costs next to nothing if nobody listens at that level."""
    if logger.isEnabledFor(level):
        text = " ".join([name, *(f"{key}={value}" for key, value in facts.items())])
        logger.log(level, "%s", text, extra={"event": name, "facts": facts})
