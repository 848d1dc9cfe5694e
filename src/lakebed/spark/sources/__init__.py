"""The data sources for reading. `feed` is the interface that topics and logs share."""
