"""Every operation that names a target can be carried out by it: the names and values fit."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

import pytest

from lakebed.api.operation import Nothing, Operation
from lakebed.api.operations import OPERATIONS
from lakebed.http_api.binder import OWNERS
from lakebed.keratin.partition import Partition
from lakebed.store.group import Group
from lakebed.store.store import Store
from lakebed.store.topics import StoreTopic, StoreTopics

CLASSES: Final[dict[str, type]] = {
    "Store": Store,
    "Topics": StoreTopics,
    "Topic": StoreTopic,
    "Partition": Partition,
    "Group": Group,
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
    if operation.result is Nothing:
        assert annotation == "None"
    elif annotation != operation.result.__name__:
        assert len(operation.result.__struct_fields__) == 1
