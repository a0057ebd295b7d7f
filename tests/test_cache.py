"""The cache folder: chosen by the environment, or that of the user."""

import sys
from pathlib import Path

import pytest

from seqloom.cache import cache_root


def test_the_environment_chooses_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", "chosen")
    assert cache_root() == Path("chosen")


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", "caches/seqloom"), ("darwin", "user/Library/Caches/seqloom"), ("win32", "local/seqloom")],
)
def test_each_platform_has_its_folder(platform: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEQLOOM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    monkeypatch.setenv("LOCALAPPDATA", "local")
    monkeypatch.setattr(Path, "home", lambda: Path("user"))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_root() == Path(folder)
