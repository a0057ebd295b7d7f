"""MLflow reads back what was logged, from a database in a file."""

import pytest
from tests.loggers.conftest import Log, expected_scalars

pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'seqloom[mlflow]'")


@pytest.mark.filterwarnings("ignore")
def test_mlflow_shows_every_value_and_the_configuration(
    crashed_and_resumed: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = crashed_and_resumed("mlflow")
    client = MlflowClient("sqlite:///mlflow.db")
    experiment = client.get_experiment_by_name("language_model")
    assert experiment is not None
    (logged,) = client.search_runs([experiment.experiment_id])
    assert (logged.info.run_name, logged.info.status) == ("logged", "FINISHED")
    assert logged.data.params["train.updates"] == "8"
    assert logged.data.metrics["best/perplexity"] == run.best_metrics()["perplexity"]
    for name, expected in expected_scalars(run).items():
        history = client.get_metric_history(logged.info.run_id, name)
        assert sorted({(metric.step, metric.value) for metric in history}) == expected  # the repeated update is equal
