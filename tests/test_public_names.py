"""What a program needs is importable from `lakebed`, and found there by `dir` and by editors."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lakebed
from lakebed.api import read_surface, surface
from lakebed.base.errors import LakebedError
from tests.docs.blocks import pages, text_of

SOURCE = Path(lakebed.__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", lakebed.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(lakebed, name) is not None
    assert name in dir(lakebed)


@pytest.mark.parametrize(
    "name",
    [
        *("Store", "connect", "AofManager", "AofConfig", "TopicConfig", "GroupConfig"),
        *("SeglakeConfig", "Ack", "Producer", "LakebedError", "NotFound", "WouldBlock"),
        *("StaleLease", "OffsetOutOfRange", "NoSuchKey", "PreconditionFailed", "Unreachable"),
        *("ByteRange", "MetadataLost", "Tier2Error"),
    ],
)
def test_the_names_that_people_look_for_are_public(name: str) -> None:
    assert name in lakebed.__all__


def test_every_part_of_a_public_configuration_is_public() -> None:
    """Else nobody could give one that differs from its default."""
    names = {name for name in lakebed.__all__ if name.endswith("Config")} - {"BadConfig"}
    configs = [getattr(lakebed, name) for name in names]
    parts = {
        type(getattr(config(), field.name)).__name__
        for config in configs
        for field in dataclasses.fields(config)
    }
    assert {name for name in parts if name.endswith("Config")} <= names


@pytest.mark.parametrize("page", pages())
def test_guides_import_public_names_from_the_package(page: str) -> None:
    imported = re.findall(r"^from lakebed\.[\w.]+ import (.*)$", text_of(page), re.MULTILINE)
    assert not {name.strip() for line in imported for name in line.split(",")} & {*lakebed.__all__}


@pytest.mark.parametrize("page", [*pages(), "examples/README.md"])
def test_no_page_installs_the_package_from_an_index_that_does_not_have_it(page: str) -> None:
    assert not re.search(r"pip install[^\n`#]*[ '\"]lakebed\b", text_of(page))


def test_every_error_comes_from_one_root() -> None:
    classes = [getattr(lakebed, name) for name in lakebed.__all__]
    errors = [one for one in classes if isinstance(one, type) and issubclass(one, BaseException)]
    assert len(errors) > 20
    assert all(issubclass(one, LakebedError) for one in errors)


def test_type_checkers_see_the_same_names() -> None:
    seen = {
        name.asname
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname
    }
    assert seen == {*lakebed.__all__} - {"__version__"}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Stor'"):
        lakebed.Stor  # noqa: B018


def test_an_import_of_the_package_imports_no_engine() -> None:
    program = "import lakebed, sys; print(*(m for m in sys.modules if m.startswith('lakebed')))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {"lakebed", "lakebed.version"}


ERROR_MODULES = (
    *("lakebed.base.errors", "lakebed.aof.errors", "lakebed.keratin.errors"),
    *("lakebed.stroma.errors", "lakebed.seglake.errors", "lakebed.client.errors"),
    "lakebed.api.problems",
)


@pytest.mark.parametrize("module", ERROR_MODULES)
def test_every_error_that_a_store_raises_is_public(module: str) -> None:
    values = vars(importlib.import_module(module)).values()
    raised = {
        value.__name__
        for value in values
        if isinstance(value, type)
        and issubclass(value, LakebedError)
        and value.__module__ == module
    }
    assert raised
    assert raised <= {*lakebed.__all__}


@pytest.mark.parametrize("module", [surface, read_surface])
def test_every_class_that_a_store_takes_as_an_argument_is_public(module: ModuleType) -> None:
    taken = {
        word
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.FunctionDef)
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if argument.annotation is not None
        for word in re.findall(r"\w+", ast.unparse(argument.annotation))
    }
    classes = {
        name
        for name in taken
        if isinstance(value := getattr(module, name, None), type)
        and value.__module__.startswith("lakebed.")
    }
    assert classes <= {*lakebed.__all__}
