"""Probabilities of joint n-gram models without pruning."""

import pytest

from seqloom.models.joint_ngram import joint_ngram, unit_ngram


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_ngram, "FLOOR", 0.0)
    for name in ("NODE_PRUNING", "ARC_PRUNING"):
        monkeypatch.setattr(unit_ngram, name, 0.0)
