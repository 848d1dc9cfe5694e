"""Sinks for queries: topics and tables. Each batch is written once."""
