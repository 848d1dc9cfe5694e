"""The disk, behind one narrow protocol: every engine touches it through here and nowhere else.

- `protocol`: `Disk`, `File`, `Lock`: what an engine may ask of a disk, and what each promises;
  `ReadableDisk`, `ReadableFile`: the part of it that readers need;
- `real`: the operating system's; `lakebed.base.simulation.disk` is the other implementation;
- `durable`: what is built from those calls and used everywhere: `replace_atomically` and its kin;
- `notice`: a small file for other processes, overwritten in place;
- `writing`: the one loop that writes all of a buffer;
- `fork_guard`: what must not outlive a fork.
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
