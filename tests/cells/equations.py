"""The equations of every cell in NumPy, gate by gate and row by row: an independent reference."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from seqloom.cells import Cell, RecurrentDropout, Zoneout

Array = npt.NDArray[np.float64]
Weights = dict[str, Array]
State = dict[str, Array]
Step = Callable[[Any, Weights, Array, State], tuple[State, State]]  # cell, weights, x (D,), state → state, gates


def run(
    cell: Cell,
    x: Array,  # (B, T, D)
) -> tuple[Array, State, State]:  # outputs (B, T, H), the last state (B, H) and all gates (B, T, H) by name
    """Run the cell in eval mode over a batch of sequences."""
    weights = {name: value.detach().double().numpy() for name, value in cell.state_dict().items()}
    rows = [run_row(cell, weights, row) for row in x]
    states, gates = [row[0] for row in rows], [row[1] for row in rows]
    first = cell.State._fields[0]
    return (
        np.array([[state[first] for state in row] for row in states]),
        {name: np.array([row[-1][name] for row in states]) for name in cell.State._fields},
        {name: np.array([[gate[name] for gate in row] for row in gates]) for name in cell.gates},
    )


def run_row(cell: Cell, weights: Weights, x: Array) -> tuple[list[State], list[State]]:
    state = {name: np.zeros(cell.hidden_size) for name in cell.State._fields}
    states, gates = [], []
    for x_t in x:
        state, gate = step(cell, weights, x_t, state)
        states.append(state)
        gates.append(gate)
    return states, gates


def step(cell: Cell, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    if isinstance(cell, Zoneout | RecurrentDropout):
        inner = {name.removeprefix("cell."): value for name, value in weights.items()}
        next_state, gates = step(cell.cell, inner, x, state)
        if isinstance(cell, Zoneout):
            next_state = {name: cell.rate * state[name] + (1 - cell.rate) * next_state[name] for name in state}
        return next_state, gates
    return STEPS[type(cell).__name__](cell, weights, x, state)


def sigmoid(a: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-a)))


def normal(a: Array) -> Array:
    mean = a.sum() / len(a)
    return np.asarray((a - mean) / np.sqrt(((a - mean) ** 2).sum() / len(a) + 1e-5))


def linear(weights: Weights, name: str, index: int, n: int, x: Array) -> Array:
    """Gate ``index`` of a product, with its bias if there is one."""
    rows = slice(index * n, (index + 1) * n)
    product: Array = weights[f"{name}.weight"][rows] @ x
    return product + weights[f"{name}.bias"][rows] if f"{name}.bias" in weights else product


def normal_linear(weights: Weights, name: str, index: int, n: int, x: Array) -> Array:
    """Like ``linear``, with normalisation, gain and bias after the product."""
    rows = slice(index * n, (index + 1) * n)
    value = weights[f"{name}.1.weight"][rows] * normal(weights[f"{name}.0.weight"][rows] @ x)
    return value + weights[f"{name}.1.bias"][rows] if f"{name}.1.bias" in weights else value


def elman(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, h = cell.hidden_size, state["hidden"]
    pieces = len(weights["recurrent.weight"]) // n
    a = [linear(weights, "input", k, n, x) + linear(weights, "recurrent", k, n, h) for k in range(pieces)]
    activations: dict[str, Array] = {
        "tanh": np.tanh(a[0]),
        "sigmoid": sigmoid(a[0]),
        "relu": np.where(a[0] > 0, a[0], 0),
        "leaky_relu": np.where(a[0] > 0, a[0], cell.negative_slope * a[0]),
        "elu": np.where(a[0] > 0, a[0], cell.elu_alpha * (np.exp(a[0]) - 1)),
        "maxout": np.max(a, axis=0),
    }
    return {"hidden": activations[cell.activation]}, {}


def ind_rnn(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    a = linear(weights, "input", 0, cell.hidden_size, x) + weights["recurrent"] * state["hidden"]
    return {"hidden": np.where(a > 0, a, 0)}, {}


def mgu(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, h = cell.hidden_size, state["hidden"]
    f = sigmoid(linear(weights, "input", 0, n, x) + linear(weights, "recurrent", 0, n, h))
    candidate = np.tanh(linear(weights, "input", 1, n, x) + linear(weights, "candidate", 0, n, f * h))
    return {"hidden": (1 - f) * h + f * candidate}, {"forget": f, "candidate": candidate}


def min_gru(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n = cell.hidden_size
    z, candidate = sigmoid(linear(weights, "input", 0, n, x)), linear(weights, "input", 1, n, x)
    return {"hidden": (1 - z) * state["hidden"] + z * candidate}, {"update": z, "candidate": candidate}


def min_lstm(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n = cell.hidden_size
    i, f = sigmoid(linear(weights, "input", 0, n, x)), sigmoid(linear(weights, "input", 1, n, x))
    i, f = i / (i + f), f / (i + f)
    candidate = linear(weights, "input", 2, n, x)
    return {"hidden": f * state["hidden"] + i * candidate}, {"input": i, "forget": f, "candidate": candidate}


def sru(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, c = cell.hidden_size, state["memory"]
    v, b = weights["peepholes"], weights.get("bias", np.zeros(2 * n))
    name = "input.linear" if len(x) == n else "input"
    f = sigmoid(linear(weights, name, 0, n, x) + v[:n] * c + b[:n])
    r = sigmoid(linear(weights, name, 1, n, x) + v[n:] * c + b[n:])
    z = linear(weights, name, 2, n, x)
    skip = np.sqrt(3) * x if len(x) == n else linear(weights, "input", 3, n, x)
    c = f * c + (1 - f) * z
    return {"hidden": r * c + (1 - r) * skip, "memory": c}, {"forget": f, "reset": r, "candidate": z}


def mogrifier_lstm(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    h = state["hidden"]
    for index in range(5):
        matrix = weights[f"mogrifiers.{index}.weight"]
        if index in (0, 2, 4):
            x = 2 * sigmoid(matrix @ h) * x
        else:
            h = 2 * sigmoid(matrix @ x) * h
    renamed = {name.replace("input_projection.", "input."): value for name, value in weights.items()}
    return lstm(cell, renamed, x, {"hidden": h, "memory": state["memory"]})


def slstm(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    """Without a stabiliser: the exponents of the state are undone and applied again."""
    n, h, m = cell.hidden_size, state["hidden"], state["stabilizer"]
    a = [linear(weights, "input", k, n, x) + linear(weights, "recurrent", k, n, h) for k in range(4)]
    i, z, o = np.exp(a[0]), np.tanh(a[2]), sigmoid(a[3])
    f = sigmoid(a[1]) if cell.forget_gate == "sigmoid" else np.exp(a[1])
    c = f * state["memory"] * np.exp(m) + i * z
    normalizer = f * state["normalizer"] * np.exp(m) + i
    first = state["normalizer"] == 0
    m = np.where(first, a[0], np.maximum(m + np.log(f), a[0]))
    forget = np.where(first, np.minimum(f * np.exp(-m), 1), f * np.exp(state["stabilizer"] - m))
    return (
        {
            "hidden": o * c / normalizer,
            "memory": c * np.exp(-m),
            "normalizer": normalizer * np.exp(-m),
            "stabilizer": m,
        },
        {"input": i * np.exp(-m), "forget": forget, "candidate": z, "output": o},
    )


def lstm(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, h, c = cell.hidden_size, state["hidden"], state["memory"]
    a = [linear(weights, "input", k, n, x) + linear(weights, "recurrent", k, n, h) for k in range(4)]
    i, f, z, o = sigmoid(a[0]), sigmoid(a[1]), np.tanh(a[2]), sigmoid(a[3])
    c = f * c + i * z
    return {"hidden": o * np.tanh(c), "memory": c}, {"input": i, "forget": f, "candidate": z, "output": o}


def peephole(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, h, c = cell.hidden_size, state["hidden"], state["memory"]
    diagonal = {gate: weights.get(f"peepholes.{gate}", np.zeros(n)) for gate in ("input", "forget", "output")}
    p = {gate: np.diag(value) if value.ndim == 1 else value for gate, value in diagonal.items()}
    a = [linear(weights, "input", k, n, x) + linear(weights, "recurrent", k, n, h) for k in range(4)]
    i, f, z = sigmoid(a[0] + p["input"] @ c), sigmoid(a[1] + p["forget"] @ c), np.tanh(a[2])
    c = f * c + i * z
    o = sigmoid(a[3] + p["output"] @ c)
    return {"hidden": o * np.tanh(c), "memory": c}, {"input": i, "forget": f, "candidate": z, "output": o}


def coupled(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, h, c = cell.hidden_size, state["hidden"], state["memory"]
    a = [linear(weights, "input", k, n, x) + linear(weights, "recurrent", k, n, h) for k in range(3)]
    i, z, o = sigmoid(a[0]), np.tanh(a[1]), sigmoid(a[2])
    c = (1 - i) * c + i * z
    return {"hidden": o * np.tanh(c), "memory": c}, {"input": i, "forget": 1 - i, "candidate": z, "output": o}


def gru(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, h = cell.hidden_size, state["hidden"]
    r = sigmoid(linear(weights, "input", 0, n, x) + linear(weights, "recurrent", 0, n, h))
    z = sigmoid(linear(weights, "input", 1, n, x) + linear(weights, "recurrent", 1, n, h))
    if cell.reset == "before":
        u = linear(weights, "candidate", 0, n, r * h)
    else:
        u = r * linear(weights, "candidate", 0, n, h)
    candidate = np.tanh(linear(weights, "input", 2, n, x) + u)
    after = z * h + (1 - z) * candidate if cell.update_gate == "keep" else (1 - z) * h + z * candidate
    return {"hidden": after}, {"reset": r, "update": z, "candidate": candidate}


def layer_norm_lstm(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, h, c = cell.hidden_size, state["hidden"], state["memory"]
    a = [normal_linear(weights, "input", k, n, x) + normal_linear(weights, "recurrent", k, n, h) for k in range(4)]
    i, f, z, o = sigmoid(a[0]), sigmoid(a[1]), np.tanh(a[2]), sigmoid(a[3])
    c = f * c + i * z
    read = weights["memory.weight"] * normal(c) + weights.get("memory.bias", np.zeros(n))
    return {"hidden": o * np.tanh(read), "memory": c}, {"input": i, "forget": f, "candidate": z, "output": o}


def layer_norm_gru(cell: Any, weights: Weights, x: Array, state: State) -> tuple[State, State]:
    n, h = cell.hidden_size, state["hidden"]
    r = sigmoid(normal_linear(weights, "input", 0, n, x) + normal_linear(weights, "recurrent", 0, n, h))
    z = sigmoid(normal_linear(weights, "input", 1, n, x) + normal_linear(weights, "recurrent", 1, n, h))
    candidate = np.tanh(normal_linear(weights, "input", 2, n, x) + r * normal_linear(weights, "candidate", 0, n, h))
    return {"hidden": z * h + (1 - z) * candidate}, {"reset": r, "update": z, "candidate": candidate}


STEPS: dict[str, Step] = {
    "Coupled": coupled,
    "Elman": elman,
    "GRU": gru,
    "IndRNN": ind_rnn,
    "LSTM": lstm,
    "LayerNormGRU": layer_norm_gru,
    "LayerNormLSTM": layer_norm_lstm,
    "MGU": mgu,
    "MinGRU": min_gru,
    "MinLSTM": min_lstm,
    "MogrifierLSTM": mogrifier_lstm,
    "Peephole": peephole,
    "SLSTM": slstm,
    "SRU": sru,
}
