"""Errors of the tiers, as subclasses of the errors in `lakebed.base.errors`.

    Tier2Error             the object store failed; `reason_code` is stored in the manifest log
    ├── Transient          0, a RetryError: a temporary failure, a retry may help
    ├── Unauthorised       2, an InputError: credentials, permissions, or a request that the store
    │                      will not accept; an operator must act
    ├── Unavailable        3, a RetryError: no network, no bucket, or the server failed
    └── Missing            4, a NotFound: the object does not exist
    Cancelled              a RetryError: stopped on request; no partial result is left
    MissingDictionary      a DataError: the dictionary used for compression was not given

A failed `put` or `delete` may have succeeded in the store, because the response can be lost. Both
may be repeated under the same key. Damaged bytes are `Corrupt`, as everywhere; in compression that
is reason code 1.
"""

from __future__ import annotations

from typing import ClassVar

from lakebed.aof.manifest.records import ReasonCode
from lakebed.base.errors import DataError, InputError, LakebedError, NotFound, RetryError


class Tier2Error(LakebedError):
    """An operation of the object store of Tier 2 failed."""

    reason_code: ClassVar[ReasonCode] = ReasonCode.TRANSIENT


class Transient(Tier2Error, RetryError):
    """A failure that a retry may resolve, such as throttling or a truncated response."""


class Unauthorised(Tier2Error, InputError):
    """The object store of Tier 2 refused the credentials, or they lack a permission.

    Also raised if it refused the request for another reason, such as a limit that the object
    exceeds, and a retry would not help.
    """

    reason_code = ReasonCode.UNAUTHORISED
    exit_code = 77


class Unavailable(Tier2Error, RetryError):
    """The object store cannot be reached, its server or disk failed, or its bucket is missing."""

    reason_code = ReasonCode.UNAVAILABLE


class Missing(Tier2Error, NotFound):
    """The object does not exist in Tier 2, or another object has its key."""

    reason_code = ReasonCode.MISSING


class Cancelled(RetryError):
    """The operation was stopped on request."""


class MissingDictionary(DataError):
    """A frame of a warm file was compressed with a dictionary that the reader does not have."""
