"""What goes wrong in the tiers, below the branches of `lakebed.base.errors`.

    Tier2Error             the object store did not do it; `reason_code` as the manifest keeps it
    ├── Transient          0, a RetryError: a passing fault, trying again may help
    ├── Unauthorised       2, an InputError: credentials or rights; an operator must act
    ├── Unavailable        3, a RetryError: no network, no bucket, the server failed
    └── Missing            4, a NotFound: there is no such object
    Cancelled              a RetryError: stopped on request, with nothing left behind
    MissingDictionary      a DataError: compressed with a dictionary that was not given

A failed `put` or `delete` may have been carried out all the same: the answer can be lost. Both
may be repeated under the same key. Damaged bytes are `Corrupt`, as everywhere; in compression
that is reason 1.
"""

from __future__ import annotations

from typing import ClassVar

from lakebed.aof.manifest.records import ReasonCode
from lakebed.base.errors import DataError, InputError, LakebedError, NotFound, RetryError


class Tier2Error(LakebedError):
    """An operation of the object store of Tier 2 failed."""

    reason_code: ClassVar[ReasonCode] = ReasonCode.TRANSIENT


class Transient(Tier2Error, RetryError):
    """A passing fault: throttled, in conflict, an answer cut short."""


class Unauthorised(Tier2Error, InputError):
    """The store refuses these credentials."""

    reason_code = ReasonCode.UNAUTHORISED
    exit_code = 77


class Unavailable(Tier2Error, RetryError):
    """The store, its bucket or the way to it is not there."""

    reason_code = ReasonCode.UNAVAILABLE


class Missing(Tier2Error, NotFound):
    """The store answers, and has no such object."""

    reason_code = ReasonCode.MISSING


class Cancelled(RetryError):
    """The caller asked for it to stop."""


class MissingDictionary(DataError):
    """A frame was compressed with a dictionary that is not at hand."""
