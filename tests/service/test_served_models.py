from pathlib import Path

import pytest

from seqloom.service.served_models import unique_names


def test_equal_names_get_the_folder_above() -> None:
    first, second, tag = Path("a/classify"), Path("b/classify"), Path("tag.onnx")
    assert unique_names([first, tag], ["classify", "tag"]) == ["classify", "tag"]
    assert unique_names([first, second, tag], ["classify", "classify", "tag"]) == ["a-classify", "b-classify", "tag"]
    with pytest.raises(ValueError, match="two runs have the name a-classify"):
        unique_names([first, first], ["classify", "classify"])
