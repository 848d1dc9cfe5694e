"""Every operation that names a target can be carried out by it: the names and values fit."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

import pytest

from lakebed.aof.log import Aof
from lakebed.aof.tiers.log_tiers import LogTiers
from lakebed.api import surface
from lakebed.api.operation import Nothing, Operation
from lakebed.api.operation_table import OPERATIONS
from lakebed.base.damage_ledger import DamageLedger
from lakebed.http_api.binder import OWNERS
from lakebed.keratin.partition import Partition
from lakebed.seglake.access_keys import AccessKeys
from lakebed.seglake.buckets import Buckets
from lakebed.seglake.stored_pages import StoredObjects
from lakebed.store.bucket import Bucket
from lakebed.store.group import Group
from lakebed.store.pins import Pins
from lakebed.store.store import Store
from lakebed.store.topics import StoreTopic, StoreTopics

CLASSES: Final[dict[str, type]] = {
    "Store": Store,
    "Topics": StoreTopics,
    "Topic": StoreTopic,
    "Partition": Partition,
    "Group": Group,
    "Buckets": Buckets,
    "Bucket": Bucket,
    "StoredObjects": StoredObjects,
    "AccessKeys": AccessKeys,
    "Log": Aof,
    "Tiers": LogTiers,
    "Pins": Pins,
    "Damage": DamageLedger,
}
BOUND: Final = [operation for operation in OPERATIONS if operation.target]


def test_there_is_a_class_for_every_owner() -> None:
    assert set(CLASSES) == set(OWNERS)


@pytest.mark.parametrize("operation", BOUND, ids=lambda operation: operation.name)
def test_a_target_takes_what_the_call_brings(operation: Operation[Any]) -> None:
    owner_name, _, method = operation.target.partition(".")
    names = re.findall(r"\{(\w+)\*?\}", operation.path)
    assert set(OWNERS[owner_name].names) <= set(names)
    positional = [name for name in names if name not in OWNERS[owner_name].names]
    fields = [
        name
        for kind in (operation.query, operation.body)
        if kind is not Nothing
        for name in kind.__struct_fields__
    ]
    signature = inspect.signature(getattr(CLASSES[owner_name], method))
    signature.bind(None, *positional, **dict.fromkeys(fields))


@pytest.mark.parametrize("operation", BOUND, ids=lambda operation: operation.name)
def test_a_target_returns_the_result_or_its_only_field(operation: Operation[Any]) -> None:
    owner_name, _, method = operation.target.partition(".")
    annotation = inspect.signature(getattr(CLASSES[owner_name], method)).return_annotation
    change = re.fullmatch(r"Change\[(.*)\]", annotation)
    assert bool(change) == (method in OWNERS[owner_name].changes)
    returned = change[1] if change else annotation
    result = operation.result
    if result is Nothing:
        assert returned == "None"
    elif returned not in (result.__name__, re.sub(r"[\w.]+\.", "", str(result))):
        assert len(result.__struct_fields__) == 1


def test_targets_are_part_of_the_surface() -> None:
    """But for changes of the object store, which are committed without a thread."""
    missing = []
    for operation in BOUND:
        owner_name, _, method = operation.target.partition(".")
        protocol = getattr(surface, owner_name, None)
        is_change = method in OWNERS[owner_name].changes
        if not is_change and not hasattr(protocol, method):
            missing.append(operation.target)
    # For readers of everything that a bucket has, which only Spark does.
    assert [
        target for target in missing if not target.startswith(("StoredObjects.", "Buckets."))
    ] == []
