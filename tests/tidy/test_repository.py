"""The repository's text: links lead somewhere, and no file depends on one registry."""

from __future__ import annotations

import re

from lakebed.version import VERSION
from tests.tidy.repository import ROOT, tracked

# Written in halves, so that this file does not name what it looks for.
REGISTRY_HOSTS = tuple(
    f"{host}.{domain}"
    for host, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("pypi", "python.org"),
        ("maven", "org"),
        ("maven", "apache.org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("anaconda", "org"),
        ("crates", "io"),
        ("docker", "io"),
        ("ghcr", "io"),
    )
)
BINARY_SUFFIXES = (".bin", ".seg", ".mlog", ".zst", ".png", ".gz")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_no_file_names_a_package_registry() -> None:
    named = [
        f"{path.relative_to(ROOT)}: {host}"
        for path in tracked()
        if path.suffix not in BINARY_SUFFIXES
        for host in REGISTRY_HOSTS
        if host in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert not named, "\n".join(named)


def test_relative_links_of_the_pages_exist() -> None:
    broken = []
    for page in (path for path in tracked() if path.suffix == ".md"):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in LINK.findall(text):
            if "://" in target or target.startswith(("#", "mailto:")):
                continue
            if not (page.parent / target.partition("#")[0]).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)


def test_the_changelog_has_the_current_version() -> None:
    assert VERSION in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_constraints_are_exact_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    wrong = [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", pin)]
    assert not wrong
    assert not [pin for pin in pins if pin.startswith("lakebed")]
