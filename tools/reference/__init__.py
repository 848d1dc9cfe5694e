"""Generates the pages of `docs/reference/` from the code: `python -m tools.reference`.

Each module has a function `page` that returns the text of one page and writes no file. The content
comes from declarations, docstrings and comments after fields; only headings and introductions are
here. A page is the same on every machine.
"""
