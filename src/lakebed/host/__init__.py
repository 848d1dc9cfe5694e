"""The public entry points `lakebed.Store` and `lakebed.connect`.

A store that is open for writing serves a local socket, through which other processes use it, unless
it was opened with `serves=False` or a `disk`.
"""
