"""Settings files: the shipped one holds the defaults, and a mistake is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from wactl.controller.settings import CONFIG, Mode, Settings, SettingsError, load_settings


def test_the_shipped_file_holds_every_key_with_its_default() -> None:
    """config/wactl.yaml names all settings, and says what holds without it."""
    written = yaml.safe_load((CONFIG / "wactl.yaml").read_text())
    assert set(written) == set(Settings.model_fields)
    assert load_settings(CONFIG / "wactl.yaml") == Settings() == load_settings(None)


@pytest.mark.parametrize("contents", ["", "# nothing\n", "{}"])
def test_every_key_may_be_left_out(tmp_path: Path, contents: str) -> None:
    """An empty file means the defaults."""
    (tmp_path / "w.yaml").write_text(contents)
    assert load_settings(tmp_path / "w.yaml") == Settings()


def test_rules_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    """A relative path starts at the settings' folder, an absolute one stays."""
    (tmp_path / "w.yaml").write_text("mode: enforce\nrules: sub/r.yaml\n")
    assert load_settings(tmp_path / "w.yaml").rules == tmp_path / "sub" / "r.yaml"
    assert load_settings(tmp_path / "w.yaml").mode is Mode.ENFORCE
    (tmp_path / "w.yaml").write_text("rules: /etc/r.yaml\n")
    assert load_settings(tmp_path / "w.yaml").rules == Path("/etc/r.yaml")


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ("moed: shadow", ["moed", "known keys: mode, rules, refit_seconds"]),
        ("mode: aggressive", ["mode", "'observe', 'shadow' or 'enforce'"]),
        ("score: lru", ["score", "'hazard', 'window' or 'paper'"]),
        ("refit_seconds: often", ["refit_seconds", "valid number"]),
        ("refit_seconds: 0", ["refit_seconds", "greater than or equal to 1"]),
        ("refit_seconds: .inf", ["refit_seconds", "less than or equal to 3600"]),
        ("half_life_seconds: .nan", ["half_life_seconds", "should be"]),
        ("metrics_port: 65536", ["metrics_port", "less than or equal to 65535"]),
        ("metrics_port: [1]", ["metrics_port", "integer"]),
        ("rules: 5", ["rules", "path"]),
        ("1: 2", ["1", "strings"]),
        ("- mode", ["needs keys and values, like `mode: shadow`"]),
        ("shadow", ["needs keys and values, like `mode: shadow`"]),
        ("mode: [", ["not YAML"]),
        ("mode: 2024-13-45", ["not YAML"]),
        ("{[1]: 2}", ["not YAML"]),
        ("[" * 5000, ["not YAML"]),
        (b"\xff\xfe\x00", ["not YAML"]),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_file_and_the_key(
    tmp_path: Path, contents: str | bytes, words: list[str]
) -> None:
    """The message has one line, begins with the file, and says what is wrong."""
    path = tmp_path / "w.yaml"
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    for word in words:
        assert word in text


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and a folder are named with the reason."""
    with pytest.raises(SettingsError, match=r"none\.yaml: cannot be read: No such file"):
        load_settings(tmp_path / "none.yaml")
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load_settings(tmp_path)
