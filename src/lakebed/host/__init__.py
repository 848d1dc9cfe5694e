"""`lakebed.Store`, which serves its local socket while open for writing, and `lakebed.connect`."""
