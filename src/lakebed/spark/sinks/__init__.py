"""Where queries write to: topics and tables, each batch once."""
