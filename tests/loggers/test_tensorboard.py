"""TensorBoard reads back what was logged."""

import pytest
from tests.loggers.conftest import Log, expected_scalars

pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install 'seqloom[tensorboard]'")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_shows_every_value_once(crashed_and_resumed: Log) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = crashed_and_resumed("tensorboard")
    log = EventAccumulator(str(run.path)).Reload()
    for name, expected in expected_scalars(run).items():
        actual = [(event.step, event.value) for event in log.Scalars(name)]
        assert [step for step, _ in actual] == [step for step, _ in expected]
        assert [value for _, value in actual] == pytest.approx([value for _, value in expected])  # stored as float32
    (best,) = log.Scalars("best/perplexity")
    assert best.value == pytest.approx(run.best_metrics()["perplexity"])
    (config,) = log.Tensors("config/text_summary")
    assert b'name = "language_model"' in config.tensor_proto.string_val[0]
    metadata = log.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"train.learning_rate" in metadata
