"""The disk, through one narrow protocol. Engines reach files only through this package.

- `protocol`: `Disk`, `File` and `Lock`, the calls an engine may use and what each promises;
  `ReadableDisk` and `ReadableFile`, the part that readers need;
- `real`: the operating system's disk; `lakebed.base.simulation.disk` is the other implementation;
- `durable`: operations built from those calls, such as `replace_atomically`;
- `notice`: a small file for other processes, overwritten in place;
- `writing`: the loop that writes all of a buffer;
- `fork_guard`: what must not survive a fork.
"""

from lakebed.base.files.durable import (
    build_atomically,
    make_folders,
    read_file,
    remove_temporaries,
    replace_atomically,
)
from lakebed.base.files.protocol import (
    TEMPORARY_SUFFIX,
    Disk,
    File,
    Lock,
    PathLike,
    ReadableDisk,
    ReadableFile,
)

__all__ = [
    "TEMPORARY_SUFFIX",
    "Disk",
    "File",
    "Lock",
    "PathLike",
    "ReadableDisk",
    "ReadableFile",
    "build_atomically",
    "make_folders",
    "read_file",
    "remove_temporaries",
    "replace_atomically",
]
