"""The settings of a node: who wins, what is refused, and how that is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.errors import BadConfig
from lakebed.base.settings import Settings
from lakebed.node.config import (
    NodeConfig,
    Option,
    changed_names,
    is_loopback,
    node_settings,
    tls_of,
)
from lakebed.seglake.config import SeglakeConfig
from lakebed.store.store import Store
from tests.http.certificates import write_pair

EVERYWHERE = "0.0.0.0"  # noqa: S104


def settings_of(root: Path, file: str = "", *options: Option, **environment: str) -> Settings:
    if file:
        (root / "lakebed.toml").write_text(file)
    return node_settings(root, environment=environment, options=options)


def port(value: int | None) -> Option:
    return Option("node", "s3_port", value, "--s3-port")


def origin(settings: Settings, name: str) -> str:
    return next(one.origin for one in settings if (one.section, one.name) == ("node", name))


def test_options_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = "[node]\ns3_port = 1\n"
    variable = {"LAKEBED_NODE_S3_PORT": "2"}
    found = settings_of(tmp_path)
    assert (found.config(NodeConfig).s3_port, origin(found, "s3_port")) == (9000, "default")
    found = settings_of(tmp_path, file)
    expected = (1, str(tmp_path / "lakebed.toml"))
    assert (found.config(NodeConfig).s3_port, origin(found, "s3_port")) == expected
    found = settings_of(tmp_path, file, **variable)
    expected = (2, "LAKEBED_NODE_S3_PORT")
    assert (found.config(NodeConfig).s3_port, origin(found, "s3_port")) == expected
    found = settings_of(tmp_path, file, port(3), **variable)
    assert (found.config(NodeConfig).s3_port, origin(found, "s3_port")) == (3, "--s3-port")
    found = settings_of(tmp_path, file, port(None), **variable)  # it was not given
    assert found.config(NodeConfig).s3_port == 2


def test_options_may_be_of_other_sections_and_in_any_unit(tmp_path: Path) -> None:
    options = [
        Option("s3", "max_object_size", "1024", "--s3 max-object-size", is_text=True),
        Option("s3", "segment_idle_ms", "5s", "--s3 segment-idle-ms", is_text=True),
    ]
    found = settings_of(tmp_path, "[node]\ndrain_s = '2min'\n[s3]\ndomain = 'x'\n", *options)
    objects = found.config(SeglakeConfig)
    assert (objects.max_object_size, objects.segment_idle_ms) == (1024, 5000)
    assert objects.domain == "x"  # what others say stays
    assert found.config(NodeConfig).drain_s == 120


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("[node]\ns3_prot = 1\n", "did you mean s3_port?"),
        ("[nod]\n", "did you mean node?"),
        ("node = 1\n", "expected a table"),
        ("[node]\ns3_port = 65536\n", "expected 0 to 65535"),
        ("[node]\ns3_host = ' '\n", "s3_host is empty"),
        ("[node]\nhttp_host = ''\n", "http_host is empty"),
        ("[node]\ndrain_s = -1\n", "expected 0.0 to"),
        ("[node]\nlog_format = 'xml'\n", "expected one of console, json"),
        ("[node]\nlog_level = 'loud'\n", "expected one of debug, info, warning, error"),
        ("[node]\naccess_log = 'yes'\n", "expected true or false"),
        ("[node]\ns3_port = 9001\n", "the S3 endpoint uses this port"),
        ("[node]\ntls_cert = 'x'\n", r"\[node\] tls_cert: .* belong together"),
        ("[node]\ntls_key = 'x'\n", r"\[node\] tls_key: .* belong together"),
        ("[node]\ntls_cert = 'x'\ntls_key = 'y'\n", "cannot load the TLS certificate"),
        (f"[node]\nhttp_host = '{EVERYWHERE}'\n", "in clear"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, file: str, message: str) -> None:
    with pytest.raises(BadConfig, match=message) as caught:
        settings_of(tmp_path, file)
    assert str(tmp_path / "lakebed.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (Option("node", "s3_port", 70_000, "--s3-port"), "--s3-port: s3_port = 70000: expected"),
        (Option("node", "log_level", "loud", "--log-level"), "--log-level: log_level = 'loud'"),
        (Option("s3", "nothing", "1", "--s3 nothing", is_text=True), "--s3 nothing: unknown"),
        (Option("s3", "cache_bytes", "x", "--s3 cache-bytes", is_text=True), "is not a size"),
        (Option("node", "tls_cert", "x", "--tls-cert"), "--tls-cert: .*belong together"),
        (Option("node", "http_host", "::", "--http-host"), "--http-host ::: without TLS"),
    ],
)
def test_a_bad_option_is_told_by_its_name(tmp_path: Path, option: Option, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        settings_of(tmp_path, "", option)


def test_a_bad_variable_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"^LAKEBED_NODE_HTTP_PORT: http_port = 'x'"):
        settings_of(tmp_path, LAKEBED_NODE_HTTP_PORT="x")
    with pytest.raises(BadConfig, match=r"^LAKEBED_NODE_PORT: unknown setting"):
        settings_of(tmp_path, LAKEBED_NODE_PORT="1")


def test_a_certificate_of_the_file_and_a_key_of_an_option_make_a_pair(tmp_path: Path) -> None:
    """A path in the file is relative to its folder, an option's to where the program runs."""
    write_pair(tmp_path, "one")
    key = Option("node", "tls_key", str(tmp_path / "key.pem"), "--tls-key")
    found = settings_of(tmp_path, "[node]\ntls_cert = 'cert.pem'\n", key)
    assert tls_of(found) is not None
    beside = Option("node", "tls_cert", "cert.pem", "--tls-cert")
    with pytest.raises(BadConfig, match="cannot load the TLS certificate"):
        settings_of(tmp_path, "", key, beside)


def test_who_reads_the_certificate_anyway_need_not_have_it_read_twice(tmp_path: Path) -> None:
    """Half a pair is found in any case."""
    (tmp_path / "lakebed.toml").write_text("[node]\ntls_cert = 'none.pem'\ntls_key = 'none.pem'\n")
    found = node_settings(tmp_path, environment={}, reads_certificate=False)
    with pytest.raises(BadConfig, match="cannot load the TLS certificate"):
        tls_of(found)
    (tmp_path / "lakebed.toml").write_text("[node]\ntls_cert = 'none.pem'\n")
    with pytest.raises(BadConfig, match="belong together"):
        node_settings(tmp_path, environment={}, reads_certificate=False)


def test_the_store_leaves_the_section_to_the_node(tmp_path: Path) -> None:
    """Also one that the node refuses: whoever embeds the store serves nothing."""
    (tmp_path / "lakebed.toml").write_text("[node]\ns3_prot = 1\n")
    with Store.open(tmp_path) as store:
        assert store.logs() == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_alone_needs_no_tls(tmp_path: Path, host: str) -> None:
    assert is_loopback(host)
    settings_of(tmp_path, f"[node]\nhttp_host = '{host}'\n")


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "10.0.0.1", "example.com", "localhost.evil"])
def test_anything_else_needs_tls_or_a_word(tmp_path: Path, host: str) -> None:
    assert not is_loopback(host)
    file = f"[node]\nhttp_host = '{host}'\n"
    with pytest.raises(BadConfig, match="in clear"):
        settings_of(tmp_path, file)
    settings_of(tmp_path, file + "http_insecure = true\n")
    settings_of(tmp_path, file + "http = false\n")
    write_pair(tmp_path, "one")
    settings_of(tmp_path, file + "tls_cert = 'cert.pem'\ntls_key = 'key.pem'\n")


def test_what_differs_is_told_by_name() -> None:
    assert changed_names(NodeConfig(), NodeConfig()) == []
    assert changed_names(NodeConfig(), NodeConfig(s3_port=1, log_level="debug")) == [
        "s3_port",
        "log_level",
    ]
