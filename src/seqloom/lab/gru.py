"""Whether a GRU is as good as an LSTM with three quarters of its parameters."""

from typing import ClassVar

from seqloom.lab.cell_comparison import CellComparison


class Gru(CellComparison):
    """Character language models with GRU and LSTM layers of equal width."""

    cell: ClassVar[str] = "gru"
    title: ClassVar[str] = "GRU"
    question: ClassVar[str] = "Is a GRU as good as an LSTM?"
    claim: ClassVar[str] = "A GRU is as good as an LSTM with three quarters of its parameters."
    source: ClassVar[str] = (
        "Cho et al. 2014; Chung et al. 2014; Jozefowicz, Zaremba & Sutskever 2015; lectures on sequence modelling"
    )
