"""A store that is open for writing and serves its local socket, and `connect`, which opens or
reaches one.
"""
