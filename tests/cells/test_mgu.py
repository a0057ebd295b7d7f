from seqloom.cells import MGU


def test_parameters() -> None:
    assert sum(parameter.numel() for parameter in MGU(3, 7).parameters()) == 2 * (3 * 7 + 7 * 7 + 7)
    assert sum(parameter.numel() for parameter in MGU(3, 7, bias=False).parameters()) == 2 * (3 * 7 + 7 * 7)
