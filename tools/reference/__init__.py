"""The pages of `docs/reference/`, made of the code: `python -m tools.reference` writes them.

A module makes one page, as text: it has a function `page` and touches no file of the repository.
What a page says stands in the code, in declarations, docstrings and comments behind fields; here
are only headings and how to read them. A page is the same on every machine.
"""
