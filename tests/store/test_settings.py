"""The sections of `lakebed.toml`, and the page that lists them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.base.errors import BadConfig
from lakebed.store.settings import SECTIONS, AofSection, aof_config, settings_of
from lakebed.store.store import Store

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_without_a_file_the_engines_defaults_are_used(tmp_path: Path) -> None:
    assert aof_config(settings_of(tmp_path, environment={})) == AofConfig()


def test_the_section_has_every_plain_setting_of_a_log() -> None:
    plain = {field.name for field in dataclasses.fields(AofSection)}
    every = {field.name for field in dataclasses.fields(AofConfig)}
    assert every - plain == {"flush", "retention", "manifest", "tiers"}


def test_what_the_engine_refuses_the_section_refuses() -> None:
    with pytest.raises(BadConfig, match="not a power of two"):
        AofSection(segment_bytes=100_000)
    with pytest.raises(BadConfig, match="expected"):
        AofSection(preallocate_segments=9)


def test_a_variable_reaches_the_part_it_names(tmp_path: Path) -> None:
    environment = {
        "LAKEBED_AOF_SEGMENT_BYTES": "128KiB",
        "LAKEBED_AOF_FLUSH_FLUSH_MS": "9",
        "LAKEBED_AOF_RETENTION_ARCHIVE": "true",
    }
    config = aof_config(settings_of(tmp_path, environment=environment))
    assert (config.segment_bytes, config.flush.flush_ms) == (128 * 1024, 9)
    assert config.retention.archive


def test_a_variable_reaches_the_tiers(tmp_path: Path) -> None:
    environment = {
        "LAKEBED_AOF_TIERS_TIER0_BYTES_MAX": "1GiB",
        "LAKEBED_AOF_TIER2_TIER0_BYTES_MAX": "4GiB",
        "LAKEBED_AOF_TIER2_URL": "s3://bucket/prefix",
    }
    settings = settings_of(tmp_path, environment=environment)
    assert aof_config(settings).tiers.tier0_bytes_max == 1 << 30
    shared = settings.config(SharedTierConfig)
    assert (shared.tier0_bytes_max, shared.url) == (4 << 30, "s3://bucket/prefix")


@pytest.mark.parametrize(
    "url", ["memory://", "s4://bucket", "s3:/bucket", "tier3", "./folder", "file://folder", "~/x"]
)
def test_an_address_that_means_something_else_tomorrow_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadConfig, match=r"\[aof_tier2\] url"):
        settings_of(tmp_path, environment={"LAKEBED_AOF_TIER2_URL": url})


def test_sections_that_bound_each_other_are_checked_together(tmp_path: Path) -> None:
    environment = {"LAKEBED_AOF_TIERS_TIERING_ENABLED": "1", "LAKEBED_AOF_SEGMENT_BYTES": "256MiB"}
    with pytest.raises(BadConfig, match="more than a quarter of tier0_bytes_max"):
        settings_of(tmp_path, environment=environment)
    with pytest.raises(BadConfig, match="are not encrypted"):
        settings_of(tmp_path, environment={"LAKEBED_AOF_TIER2_ENDPOINT": "http://example.com"})


def test_a_problem_of_several_sections_names_where_they_are_set(tmp_path: Path) -> None:
    file = tmp_path / "lakebed.toml"
    large = {"LAKEBED_AOF_SEGMENT_BYTES": "256MiB"}
    tiered = {"LAKEBED_AOF_TIERS_TIERING_ENABLED": "1"}
    names = "LAKEBED_AOF_SEGMENT_BYTES, LAKEBED_AOF_TIERS_TIERING_ENABLED"
    with pytest.raises(BadConfig, match=f"^{names}: segment_bytes is"):
        settings_of(tmp_path, environment={**large, **tiered, "LAKEBED_S3_REGION": "x"})
    file.write_text("[aof_tiers]\ntiering_enabled = true\n")
    with pytest.raises(BadConfig, match=f"^{file}, LAKEBED_AOF_SEGMENT_BYTES: segment_bytes is"):
        settings_of(tmp_path, environment=large)
    file.write_text('[aof]\nsegment_bytes = "256MiB"\n[aof_tiers]\ntiering_enabled = true\n')
    with pytest.raises(BadConfig, match=f"^{file}: segment_bytes is"):
        settings_of(tmp_path, environment={})


def test_a_problem_of_the_address_names_where_it_is_set(tmp_path: Path) -> None:
    (tmp_path / "lakebed.toml").write_text('[aof_tier2]\nurl = "tier3"\n')
    with pytest.raises(BadConfig, match=rf"^{tmp_path}/lakebed.toml: \[aof_tier2\] url"):
        settings_of(tmp_path, environment={"LAKEBED_AOF_SEGMENT_BYTES": "128KiB"})
    (tmp_path / "lakebed.toml").unlink()
    with pytest.raises(BadConfig, match=r"^LAKEBED_AOF_TIER2_URL: \[aof_tier2\] url"):
        settings_of(tmp_path, environment={"LAKEBED_AOF_TIER2_URL": "tier3"})


def test_what_the_store_is_opened_with_reaches_the_tiers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_AOF_TIER2_PREFIX", "mine")
    with Store.open(tmp_path) as store:
        store.log("orders").append_record(b"one")
        store.log("orders").seal_current_segment()
        store.log("orders").tiers.upload()
        (found,) = store.bucket("lakebed-tier2").list()
        assert found.key.startswith("mine/")
    with Store.open(tmp_path, read_only=True) as reading:
        assert reading.tiers.config.prefix == "mine"
    given = SharedTierConfig(prefix="theirs")
    with Store.open(tmp_path, read_only=True, tier_config=given) as reading:
        assert reading.tiers.config is given


def test_the_guide_lists_every_setting_of_a_log_and_no_other() -> None:
    text = (GUIDES / "logs.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\| `\[(\w+)\] (\w+)`", text))
    known = {
        (section, field.name)
        for section, config in SECTIONS.items()
        if section.startswith("aof")
        for field in dataclasses.fields(config)
    }
    assert listed == known
