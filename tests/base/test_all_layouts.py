"""Every layout of the package, found by looking: it round-trips, and its page has its table."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.base.layout import Field, Layout

MODULES = ("format", "interchange")  # where layouts are declared
FORMATS = Path(__file__).parents[2] / "docs" / "formats"


def _find_layouts() -> dict[str, Layout[tuple[object, ...]]]:
    found: dict[str, Layout[tuple[object, ...]]] = {}
    for module_info in pkgutil.walk_packages(lakebed.__path__, "lakebed."):
        if module_info.name.rpartition(".")[2] in MODULES:
            module = importlib.import_module(module_info.name)
            for name, value in vars(module).items():
                if isinstance(value, Layout) and value.record.__module__ == module_info.name:
                    found[f"{module_info.name}.{name}"] = value
    return found


LAYOUTS = _find_layouts()
_RANGES = {"u8": (0, 2**8 - 1), "u16": (0, 2**16 - 1), "u32": (0, 2**32 - 1),
           "u64": (0, 2**64 - 1), "i16": (-(2**15), 2**15 - 1), "i32": (-(2**31), 2**31 - 1),
           "i64": (-(2**63), 2**63 - 1)}  # fmt: skip


def _values(field: Field) -> st.SearchStrategy[object]:
    if field.kind in _RANGES:
        low, high = _RANGES[field.kind]
        return st.integers(low, high)
    return st.binary(min_size=field.size, max_size=field.size)


def test_there_are_layouts_to_look_at() -> None:
    assert {
        "lakebed.kernels.format.AOF_RECORD",
        "lakebed.kernels.format.KERATIN_RECORD",
        "lakebed.aof.format.SEGMENT_HEADER",
        "lakebed.aof.interchange.INTERCHANGE_HEADER",
    } <= set(LAYOUTS)


@pytest.mark.thorough
@pytest.mark.parametrize("name", LAYOUTS)
@given(data=st.data())
def test_a_layout_round_trips_any_value(name: str, data: st.DataObject) -> None:
    layout = LAYOUTS[name]
    value = layout.record._make(  # type: ignore[attr-defined]
        data.draw(_values(field)) for field in layout.fields
    )
    packed = layout.pack(value)
    assert len(packed) == layout.size
    assert layout.unpack(packed) == value
    assert layout.padding_is_zero(packed)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layouts_table_stands_in_the_formats_pages(name: str) -> None:
    pages = "\n".join(page.read_text() for page in sorted(FORMATS.glob("*.md")))
    assert LAYOUTS[name].markdown() in pages, f"put this into a page:\n{LAYOUTS[name].markdown()}"
