"""Lakebed: one log-structured store for Python and Spark.

import lakebed

with lakebed.Store.open("data") as store:
    log = store.log("orders")
    record_id = log.append_record(b"...")
    log.flush(record_id)                       # durable when it returns
    for record in log.read(start=record_id):
        ...

with lakebed.connect("data") as store:         # works while another program has it open
    store.topic("orders").append_batch([b"..."]).result()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lakebed.version import VERSION

if TYPE_CHECKING:
    from lakebed.aof.config import AofConfig as AofConfig
    from lakebed.aof.config import FlushConfig as FlushConfig
    from lakebed.aof.config import ManagerConfig as ManagerConfig
    from lakebed.aof.config import RetentionConfig as RetentionConfig
    from lakebed.aof.errors import NotDurableYet as NotDurableYet
    from lakebed.aof.errors import WouldBlock as WouldBlock
    from lakebed.aof.manager import AofManager as AofManager
    from lakebed.aof.manifest.config import ManifestConfig as ManifestConfig
    from lakebed.aof.record_id import RecordId as RecordId
    from lakebed.aof.tiers.config import SharedTierConfig as SharedTierConfig
    from lakebed.aof.tiers.config import TierConfig as TierConfig
    from lakebed.aof.tiers.errors import Tier2Error as Tier2Error
    from lakebed.api.problems import CrossSite as CrossSite
    from lakebed.api.problems import FileGone as FileGone
    from lakebed.api.problems import Refused as Refused
    from lakebed.api.problems import Unauthenticated as Unauthenticated
    from lakebed.api.problems import Unreachable as Unreachable
    from lakebed.base.errors import AlreadyExists as AlreadyExists
    from lakebed.base.errors import BadConfig as BadConfig
    from lakebed.base.errors import BadName as BadName
    from lakebed.base.errors import Busy as Busy
    from lakebed.base.errors import Closed as Closed
    from lakebed.base.errors import Corrupt as Corrupt
    from lakebed.base.errors import DataError as DataError
    from lakebed.base.errors import DiskError as DiskError
    from lakebed.base.errors import InputError as InputError
    from lakebed.base.errors import LakebedError as LakebedError
    from lakebed.base.errors import Locked as Locked
    from lakebed.base.errors import NoSpace as NoSpace
    from lakebed.base.errors import NotFound as NotFound
    from lakebed.base.errors import OutcomeUnknown as OutcomeUnknown
    from lakebed.base.errors import Poisoned as Poisoned
    from lakebed.base.errors import RetryError as RetryError
    from lakebed.base.errors import SyncFailed as SyncFailed
    from lakebed.base.errors import TooLarge as TooLarge
    from lakebed.base.errors import TooManyFiles as TooManyFiles
    from lakebed.base.errors import Torn as Torn
    from lakebed.base.errors import UnknownVersion as UnknownVersion
    from lakebed.base.errors import WriteFailed as WriteFailed
    from lakebed.client.errors import BadAnswer as BadAnswer
    from lakebed.host.connect import connect as connect
    from lakebed.host.store import Store as Store
    from lakebed.keratin.config import Ack as Ack
    from lakebed.keratin.config import TopicConfig as TopicConfig
    from lakebed.keratin.errors import CodecMissing as CodecMissing
    from lakebed.keratin.errors import OffsetOutOfRange as OffsetOutOfRange
    from lakebed.keratin.errors import OutOfOrderSequence as OutOfOrderSequence
    from lakebed.keratin.errors import PartlyAppended as PartlyAppended
    from lakebed.keratin.errors import ProducerFenced as ProducerFenced
    from lakebed.kernels.format import Producer as Producer
    from lakebed.seglake.config import SeglakeConfig as SeglakeConfig
    from lakebed.seglake.errors import BadBucketName as BadBucketName
    from lakebed.seglake.errors import BadDigest as BadDigest
    from lakebed.seglake.errors import BadKey as BadKey
    from lakebed.seglake.errors import BadPart as BadPart
    from lakebed.seglake.errors import BadPartOrder as BadPartOrder
    from lakebed.seglake.errors import BadRange as BadRange
    from lakebed.seglake.errors import BadSize as BadSize
    from lakebed.seglake.errors import BadState as BadState
    from lakebed.seglake.errors import BucketExists as BucketExists
    from lakebed.seglake.errors import BucketNotEmpty as BucketNotEmpty
    from lakebed.seglake.errors import ConditionConflict as ConditionConflict
    from lakebed.seglake.errors import Damaged as Damaged
    from lakebed.seglake.errors import MetadataLost as MetadataLost
    from lakebed.seglake.errors import MethodNotAllowed as MethodNotAllowed
    from lakebed.seglake.errors import NoSuchAccessKey as NoSuchAccessKey
    from lakebed.seglake.errors import NoSuchBucket as NoSuchBucket
    from lakebed.seglake.errors import NoSuchKey as NoSuchKey
    from lakebed.seglake.errors import NoSuchUpload as NoSuchUpload
    from lakebed.seglake.errors import NoSuchVersion as NoSuchVersion
    from lakebed.seglake.errors import PartTooSmall as PartTooSmall
    from lakebed.seglake.errors import PreconditionFailed as PreconditionFailed
    from lakebed.seglake.errors import ReservedBucket as ReservedBucket
    from lakebed.seglake.errors import SecretKeyMismatch as SecretKeyMismatch
    from lakebed.seglake.model import Algorithm as Algorithm
    from lakebed.seglake.model import Content as Content
    from lakebed.seglake.model import ObjectToDelete as ObjectToDelete
    from lakebed.seglake.model import Versioning as Versioning
    from lakebed.seglake.ranges import ByteRange as ByteRange
    from lakebed.store.backup.restore import DamagedBackup as DamagedBackup
    from lakebed.store.damage_marks import NamedVersion as NamedVersion
    from lakebed.store.leased_message import Held as Held
    from lakebed.store.leased_message import LeasedMessage as LeasedMessage
    from lakebed.store.read_plan import TopicRange as TopicRange
    from lakebed.store.read_plan import WantedRead as WantedRead
    from lakebed.store.staged_batch import Staged as Staged
    from lakebed.store.version import UnfinishedRestore as UnfinishedRestore
    from lakebed.stroma.config import GroupConfig as GroupConfig
    from lakebed.stroma.errors import StaleLease as StaleLease

__version__ = VERSION

__all__ = [
    "Ack",
    "Algorithm",
    "AlreadyExists",
    "AofConfig",
    "AofManager",
    "BadAnswer",
    "BadBucketName",
    "BadConfig",
    "BadDigest",
    "BadKey",
    "BadName",
    "BadPart",
    "BadPartOrder",
    "BadRange",
    "BadSize",
    "BadState",
    "BucketExists",
    "BucketNotEmpty",
    "Busy",
    "ByteRange",
    "Closed",
    "CodecMissing",
    "ConditionConflict",
    "Content",
    "Corrupt",
    "CrossSite",
    "Damaged",
    "DamagedBackup",
    "DataError",
    "DiskError",
    "FileGone",
    "FlushConfig",
    "GroupConfig",
    "Held",
    "InputError",
    "LakebedError",
    "LeasedMessage",
    "Locked",
    "ManagerConfig",
    "ManifestConfig",
    "MetadataLost",
    "MethodNotAllowed",
    "NamedVersion",
    "NoSpace",
    "NoSuchAccessKey",
    "NoSuchBucket",
    "NoSuchKey",
    "NoSuchUpload",
    "NoSuchVersion",
    "NotDurableYet",
    "NotFound",
    "ObjectToDelete",
    "OffsetOutOfRange",
    "OutOfOrderSequence",
    "OutcomeUnknown",
    "PartTooSmall",
    "PartlyAppended",
    "Poisoned",
    "PreconditionFailed",
    "Producer",
    "ProducerFenced",
    "RecordId",
    "Refused",
    "ReservedBucket",
    "RetentionConfig",
    "RetryError",
    "SecretKeyMismatch",
    "SeglakeConfig",
    "SharedTierConfig",
    "Staged",
    "StaleLease",
    "Store",
    "SyncFailed",
    "Tier2Error",
    "TierConfig",
    "TooLarge",
    "TooManyFiles",
    "TopicConfig",
    "TopicRange",
    "Torn",
    "Unauthenticated",
    "UnfinishedRestore",
    "UnknownVersion",
    "Unreachable",
    "Versioning",
    "WantedRead",
    "WouldBlock",
    "WriteFailed",
    "__version__",
    "connect",
]

# Imported when they are used: the command line starts without the engines.
_MODULES = {
    "lakebed.host.store": ("Store",),
    "lakebed.host.connect": ("connect",),
    "lakebed.aof.manager": ("AofManager",),
    "lakebed.aof.config": (
        "AofConfig",
        "FlushConfig",
        "ManagerConfig",
        "RetentionConfig",
    ),
    "lakebed.aof.tiers.config": (
        "SharedTierConfig",
        "TierConfig",
    ),
    "lakebed.aof.tiers.errors": ("Tier2Error",),
    "lakebed.aof.manifest.config": ("ManifestConfig",),
    "lakebed.aof.record_id": ("RecordId",),
    "lakebed.keratin.config": (
        "Ack",
        "TopicConfig",
    ),
    "lakebed.kernels.format": ("Producer",),
    "lakebed.stroma.config": ("GroupConfig",),
    "lakebed.store.leased_message": (
        "Held",
        "LeasedMessage",
    ),
    "lakebed.seglake.config": ("SeglakeConfig",),
    "lakebed.seglake.model": (
        "Algorithm",
        "Content",
        "ObjectToDelete",
        "Versioning",
    ),
    "lakebed.seglake.ranges": ("ByteRange",),
    "lakebed.base.errors": (
        "AlreadyExists",
        "BadConfig",
        "BadName",
        "Busy",
        "Closed",
        "Corrupt",
        "DataError",
        "DiskError",
        "InputError",
        "LakebedError",
        "Locked",
        "NoSpace",
        "NotFound",
        "OutcomeUnknown",
        "Poisoned",
        "RetryError",
        "SyncFailed",
        "TooLarge",
        "TooManyFiles",
        "Torn",
        "UnknownVersion",
        "WriteFailed",
    ),
    "lakebed.aof.errors": (
        "WouldBlock",
        "NotDurableYet",
    ),
    "lakebed.keratin.errors": (
        "CodecMissing",
        "OffsetOutOfRange",
        "OutOfOrderSequence",
        "PartlyAppended",
        "ProducerFenced",
    ),
    "lakebed.stroma.errors": ("StaleLease",),
    "lakebed.seglake.errors": (
        "BadBucketName",
        "BadDigest",
        "BadKey",
        "BadPart",
        "BadPartOrder",
        "BadRange",
        "BadSize",
        "BadState",
        "BucketExists",
        "BucketNotEmpty",
        "ConditionConflict",
        "Damaged",
        "MetadataLost",
        "MethodNotAllowed",
        "NoSuchAccessKey",
        "NoSuchBucket",
        "NoSuchKey",
        "NoSuchUpload",
        "NoSuchVersion",
        "PartTooSmall",
        "PreconditionFailed",
        "ReservedBucket",
        "SecretKeyMismatch",
    ),
    "lakebed.api.problems": (
        "CrossSite",
        "FileGone",
        "Refused",
        "Unauthenticated",
        "Unreachable",
    ),
    "lakebed.client.errors": ("BadAnswer",),
    "lakebed.store.damage_marks": ("NamedVersion",),
    "lakebed.store.staged_batch": ("Staged",),
    "lakebed.store.read_plan": (
        "TopicRange",
        "WantedRead",
    ),
    "lakebed.store.backup.restore": ("DamagedBackup",),
    "lakebed.store.version": ("UnfinishedRestore",),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
