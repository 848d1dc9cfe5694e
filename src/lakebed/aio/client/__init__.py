"""A store that another process has open, for programs with an event loop: see `lakebed.aio`.

By hand are `sockets` (an event loop's connections), `undo_on_cancel` (what becomes of calls that
are cancelled) and `manifest_log`. `tools/asynced.py` makes all other modules of `lakebed.client`.
"""
