"""Composition: combines the store, its servers and their settings into a running node."""
