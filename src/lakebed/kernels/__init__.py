"""Compiled loops over many records or bytes: checksums, encoding, scanning, columns, writing.

The compiled module is `_compiled`, in Cython and C. If it cannot be imported, or is so old that it
lacks a function, the functions of `reference` are used instead: plain Python with the same results.
`MISSING_REASON` then has the reason, and the first use of a real disk logs a warning (`disk`). The
environment variable `LAKEBED_KERNELS` forces a choice: `reference`, or `compiled`, with which the
import fails if the compiled module cannot be used.

The compiled checksums, encoders and scanners release the interpreter lock for large inputs, and
writes always release it.
"""

from __future__ import annotations

import importlib
import os

from lakebed.base.files.writing import WriteOutcome
from lakebed.kernels.results import (
    AofEncoded,
    AofScan,
    BatchEncoded,
    BatchRecords,
    BatchStop,
    BlockStop,
    Gathered,
    HeaderPlaces,
    KeratinEncoded,
    KeratinFields,
    KeratinProducers,
    KeratinScan,
    Stop,
)

_wanted = os.environ.get("LAKEBED_KERNELS", "")
if _wanted not in ("", "compiled", "reference"):
    raise ImportError(
        f"LAKEBED_KERNELS is {_wanted!r}; set it to 'compiled' or 'reference', or unset it"
    )

_FUNCTIONS = (
    "aof_batch aof_encode aof_find aof_scan bytes_lengths crc32_combine crc32c crc32c_combine "
    "crc64_combine crc64nvme features fold64 gather keratin_batch keratin_encode keratin_fields "
    "keratin_producers keratin_scan murmur2 murmur2_hashes record_batch_decode "
    "record_batch_encode record_batch_encode_slices record_batch_headers record_batch_sections "
    "record_batch_slices write_and_sync zero_fill"
)

COMPILED: bool
MISSING_REASON = ""  # why the reference is used although it was not requested
if _wanted == "reference":
    COMPILED = False
else:
    try:
        _module = importlib.import_module("lakebed.kernels._compiled")
        # A module that lacks a function was built from older sources and is not used.
        for _name in _FUNCTIONS.split():
            if not hasattr(_module, _name):
                raise ImportError(
                    f"{_module.__file__} is out of date and must be rebuilt: it has no {_name}"
                )
        COMPILED = True
    except ImportError as _error:
        if _wanted == "compiled":
            raise ImportError(
                "LAKEBED_KERNELS=compiled, but the compiled kernels are missing or cannot be "
                f"used ({_error}): install with a C compiler, or run `python "
                "src/lakebed/kernels/build.py` in a checkout"
            ) from _error
        COMPILED = False
        MISSING_REASON = str(_error)

if COMPILED:
    from lakebed.kernels._compiled import (
        AofBatch,
        KeratinBatch,
        aof_batch,
        aof_encode,
        aof_find,
        aof_scan,
        bytes_lengths,
        crc32_combine,
        crc32c,
        crc32c_combine,
        crc64_combine,
        crc64nvme,
        features,
        fold64,
        gather,
        keratin_batch,
        keratin_encode,
        keratin_fields,
        keratin_producers,
        keratin_scan,
        murmur2,
        murmur2_hashes,
        record_batch_decode,
        record_batch_encode,
        record_batch_encode_slices,
        record_batch_headers,
        record_batch_sections,
        record_batch_slices,
        write_and_sync,
        zero_fill,
    )
else:
    from lakebed.kernels.reference import (  # type: ignore[assignment]
        AofBatch,
        KeratinBatch,
        aof_batch,
        aof_encode,
        aof_find,
        aof_scan,
        bytes_lengths,
        crc32_combine,
        crc32c,
        crc32c_combine,
        crc64_combine,
        crc64nvme,
        features,
        fold64,
        gather,
        keratin_batch,
        keratin_encode,
        keratin_fields,
        keratin_producers,
        keratin_scan,
        murmur2,
        murmur2_hashes,
        record_batch_decode,
        record_batch_encode,
        record_batch_encode_slices,
        record_batch_headers,
        record_batch_sections,
        record_batch_slices,
        write_and_sync,
        zero_fill,
    )

__all__ = [
    "COMPILED",
    "MISSING_REASON",
    "features",
    "bytes_lengths",
    "crc32c",
    "crc64nvme",
    "crc32_combine",
    "crc32c_combine",
    "crc64_combine",
    "fold64",
    "AofBatch",
    "aof_batch",
    "aof_encode",
    "aof_find",
    "aof_scan",
    "AofEncoded",
    "AofScan",
    "KeratinBatch",
    "keratin_batch",
    "keratin_encode",
    "keratin_scan",
    "KeratinEncoded",
    "KeratinScan",
    "Stop",
    "record_batch_decode",
    "record_batch_encode",
    "record_batch_slices",
    "BatchEncoded",
    "BatchRecords",
    "BatchStop",
    "gather",
    "keratin_fields",
    "keratin_producers",
    "record_batch_headers",
    "record_batch_encode_slices",
    "record_batch_sections",
    "murmur2",
    "murmur2_hashes",
    "Gathered",
    "KeratinFields",
    "KeratinProducers",
    "HeaderPlaces",
    "BlockStop",
    "write_and_sync",
    "zero_fill",
    "WriteOutcome",
]
