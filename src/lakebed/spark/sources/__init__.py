"""The data sources that are read. `feed` is what topics and logs have in common for them."""
