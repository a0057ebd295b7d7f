"""Signs that a model does not learn."""

from seqloom.metrics.learning import Remedies, constant_answer, flat_loss, overfit_since


def test_a_constant_answer_is_a_sign_only_if_several_inputs_need_another_one() -> None:
    assert constant_answer(["a"] * 5, ["a", "a", "b", "b", "c"]) == "a"
    assert constant_answer([""] * 3, ["a", "b", "b"]) == ""
    assert constant_answer(["a"] * 5, ["a", "a", "a", "b", "c"]) is None  # two rare labels may be missed
    assert constant_answer(["a"] * 5, ["b"] * 5) is None
    assert constant_answer(["a", "a", "b"], ["b", "c", "d"]) is None
    assert constant_answer([], []) is None


def test_a_loss_is_flat_if_its_last_quarter_is_no_lower_than_the_first() -> None:
    assert flat_loss([2.0, 2.1, 1.9, 2.0] * 3) == (2.0, 2.0)
    assert flat_loss([2.0] * 4 + [1.9] * 4) is None
    assert flat_loss([2.0] * 7) is None
    assert flat_loss([-1.0, -1.0, *[-1.5] * 6]) is None  # a density can exceed 1
    assert flat_loss([-1.0] * 8) == (-1.0, -1.0)


def test_the_remedy_names_the_limit_that_ended_the_training() -> None:
    endings = {
        "2.5 minutes elapsed": "minutes",
        "20 epochs done": "epochs",
        "": "epochs",
        "no improvement in 3 evaluations": "patience",
    }
    for finished, key in endings.items():
        assert Remedies.of("runs/tag", finished).train_longer == f"train.{key}"


def test_a_model_overfits_if_the_dev_error_rises_while_the_training_loss_falls() -> None:
    falling = [(0.5, 1.0), (1.0, 0.9), (2.0, 0.8), (3.0, 0.7)]
    assert overfit_since([(1, 0.5), (2, 0.6)], falling) == 1
    assert overfit_since([(1, 0.6), (2, 0.5), (3, 0.5), (4, 0.7)], falling) == 2
    assert overfit_since([(1, -0.6), (2, -0.5)], falling) == 1  # a density can exceed 1
    assert overfit_since([(1, 0.5), (2, 0.501)], falling) is None  # noise
    assert overfit_since([(1, 0.7), (2, 0.6), (3, 0.5), (4, 0.55)], falling) is None  # its best is late
    assert overfit_since([(1, 0.5), (2, 0.6)], [(1.0, 0.9), (2.0, 0.9)]) is None  # nothing is learned at all
    assert overfit_since([(1, 0.5)], falling) is None
    assert overfit_since([(1, 0.5), (2, 0.6)], []) is None


def test_a_model_whose_score_still_improves_does_not_overfit() -> None:
    """The dev loss of a classifier often rises with its accuracy."""
    falling, rising = [(0.5, 1.0), (1.0, 0.9), (2.0, 0.8), (3.0, 0.7)], [(1, 0.5), (2, 0.6), (3, 0.7), (4, 0.8)]
    assert overfit_since(rising, falling, score=[(1, 0.7), (2, 0.8), (3, 0.85), (4, 0.9)]) is None
    assert overfit_since(rising, falling, score=[(1, 0.7), (2, 0.8), (3, 0.9), (4, 0.8)]) is None  # its best is late
    assert overfit_since(rising, falling, score=[(1, 0.7), (2, 0.9), (3, 0.9), (4, 0.8)]) == 1
    assert overfit_since(rising, falling, score=[(1, 0.9), (2, 0.8), (3, 0.7), (4, 0.7)]) == 1


def test_longer_training_is_no_remedy_for_a_model_that_overfits() -> None:
    remedies = Remedies.of("runs/tag", "20 epochs done", 1.0)
    assert remedies.overfitting == (
        "The dev loss has risen since epoch 1, while the training loss fell: longer training does not help; more "
        "data, a smaller model or more dropout may."
    )
    other = Remedies.of("runs/forecast", "20 epochs done", 1.0, dev_curve="mse_scaled")
    assert other.overfitting.startswith("The dev mse_scaled has risen since epoch 1, while")
    assert Remedies.of("runs/tag", "20 epochs done").overfitting == ""


def test_the_command_of_a_remedy_can_be_pasted() -> None:
    remedies = Remedies.of("my runs/tag", "20 epochs done")
    assert remedies.find_learning_rate == "seqloom check 'my runs/tag/config.toml' --learning-rate"
