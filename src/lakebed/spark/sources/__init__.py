"""Spark data sources that read topics, logs, manifest logs, objects and tables.

Topics and logs are read through a common interface, `feed.Feed`.
"""
