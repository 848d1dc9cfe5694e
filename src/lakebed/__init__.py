"""Lakebed: one log-structured store for Python and Spark."""

from lakebed.version import VERSION

__version__ = VERSION

__all__ = ["__version__"]
