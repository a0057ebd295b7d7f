"""Whether an LSTM whose forget gate is one minus its input gate is as good as one with two gates."""

from typing import ClassVar

from seqloom.lab.cell_comparison import CellComparison


class CoupledGates(CellComparison):
    """Character language models with LSTM layers of equal width, with coupled and with separate gates."""

    cell: ClassVar[str] = "coupled"
    title: ClassVar[str] = "LSTM with coupled gates"
    question: ClassVar[str] = "Does an LSTM need separate input and forget gates?"
    claim: ClassVar[str] = "An LSTM with coupled input and forget gates is as good as one with separate gates."
    source: ClassVar[str] = "Greff et al. 2017; lectures on sequence modelling"
