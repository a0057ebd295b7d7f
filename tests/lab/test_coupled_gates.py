"""The comparison trains the cell that it names."""

from seqloom.lab.coupled_gates import CoupledGates


def test_trials_train_the_lstm_and_the_coupled_cell() -> None:
    names = {trial.name.split(",")[0] for trial in CoupledGates().trials()}
    assert names == {"lstm", "coupled", "narrow lstm"}
