"""A store that is open for writing and serves its local socket, and the way to reach one."""
