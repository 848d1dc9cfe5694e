"""The node: a process that opens a store and serves it over S3 and HTTP, with its settings and
logs.
"""
