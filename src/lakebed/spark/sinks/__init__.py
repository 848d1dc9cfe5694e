"""Spark sinks that write the results of queries to topics and tables."""
