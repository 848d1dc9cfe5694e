"""Lakebed: one log-structured store for Python and Spark."""

from lakebed.version import VERSION as __version__

__all__ = ["__version__"]
