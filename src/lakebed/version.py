"""The package's version, in the one place that both the build and the program read."""

VERSION = "0.1.0.dev0"
