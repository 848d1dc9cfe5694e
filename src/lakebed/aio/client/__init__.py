"""A store that another process has open, for programs with an event loop: see `lakebed.aio`.

`sockets` (connections in an event loop), `undo_on_cancel` (undoes cancelled calls) and
`manifest_log` are written by hand. `tools/asynced.py` generates the other modules, most of them
from those of `lakebed.client`.
"""
