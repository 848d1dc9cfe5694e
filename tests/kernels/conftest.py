"""Both implementations as one fixture, and the compiled one with each set of CPU features."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakebed.kernels import reference
from tests.kernels.samples import Kernels, load_compiled


@pytest.fixture(params=["compiled", "reference"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """Tests of this fixture are the behaviour that both must show."""
    if request.param == "reference":
        return reference
    return load_compiled()


@pytest.fixture
def compiled() -> Kernels:
    return load_compiled()


@pytest.fixture(
    params=["sse4.2 pclmul vpclmulqdq", "sse4.2 pclmul", "sse4.2", "pclmul", ""],
    ids=["all", "no-wide", "crc-only", "multiply-only", "portable"],
)
def featured(request: pytest.FixtureRequest) -> Iterator[Kernels]:
    """The compiled kernels, limited to some of the CPU's instructions."""
    compiled = load_compiled()
    before = compiled.features()
    names = request.param.split()
    if not set(names) <= set(compiled.features_available()):
        pytest.skip(f"this CPU lacks one of {names}")
    compiled.set_features(names)
    yield compiled
    compiled.set_features(before)
