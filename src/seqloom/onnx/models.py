"""Models as graphs: what they read and answer, in the units of the data."""

from seqloom.export_check import ExportError
from seqloom.layers.embedding import Embedding
from seqloom.models.classifier import Classifier
from seqloom.models.crf import CRF
from seqloom.models.decoder import Decoder
from seqloom.models.pretrained.bilm import BiLM
from seqloom.models.pretrained.contextual import CharacterEmbedding
from seqloom.models.pretrained.masked_lm import MaskedLM
from seqloom.models.step_regressor import StepRegressor
from seqloom.models.tagger import Tagger
from seqloom.onnx import crf
from seqloom.onnx.encoders import encoded
from seqloom.onnx.graph import DOUBLE, INTEGER, Graph, Value
from seqloom.onnx.inputs import Embed, Scale, lengths_input
from seqloom.onnx.modules import Rows, State, emit_layer, emit_module
from seqloom.onnx.pooling import pool
from seqloom.onnx.pretrained import reverse_padded, text_vectors
from seqloom.onnx.states import StatePorts, state_fields


def classifier(model: Classifier, embed: Embed, *, scale: Scale | None) -> Graph:
    """Probabilities of the labels, (B, L); or numbers (B, K) if there is a scale of targets."""
    graph = Graph()
    source = encoded(graph, model, embed)
    pooled = pool(model.pooling, source.values, source.rows)
    outputs = emit_module(model.output, emit_module(model.hidden, pooled)).cast(DOUBLE)
    if scale is None:
        graph.output("probabilities", outputs.apply("Softmax", axis=-1), ["batch", model.output.out_features])
    else:
        graph.output("numbers", restored(outputs, scale), ["batch", model.output.out_features])
    return graph


def tagger(model: Tagger, embed: Embed) -> Graph:
    """The best label of each element, (B, T), and its probability."""
    graph = Graph()
    source = encoded(graph, model, embed)
    emissions = emit_module(model.linear, source.values)
    if isinstance(model.output, CRF):
        labels, probabilities = crf.decode(model.output, emissions, source.rows)
    else:
        labels = graph.where(source.rows.mask, emissions.argmax(2), 0)
        best = emissions.apply("Softmax", axis=-1).max(2)
        probabilities = graph.where(source.rows.mask, best, 0.0)
    graph.output("labels", labels, ["batch", "time"])
    graph.output("probabilities", probabilities, ["batch", "time"])
    return graph


def step_regressor(model: StepRegressor, embed: Embed, *, scale: Scale) -> Graph:
    """Numbers at each element, (B, T, K)."""
    graph = Graph()
    source = encoded(graph, model, embed)
    outputs = restored(emit_module(model.linear, source.values).cast(DOUBLE), scale)
    cleared = graph.where(source.rows.mask.unsqueeze(2), outputs, 0.0)
    graph.output("numbers", cleared, ["batch", "time", model.linear.out_features])
    return graph


def restored(values: Value, scale: Scale) -> Value:
    """Standardised numbers in their own units."""
    means, deviations = (values.graph.constant(part, DOUBLE) for part in scale)
    return values * deviations + means


def decoder_step(decoder: Decoder, tokens: Value, rows: Rows, state: State) -> tuple[Value, State]:
    """The log-probabilities (B, T, V) of the token after each one, and the next state."""
    if type(decoder) is not Decoder:
        raise ExportError(f"{type(decoder).__name__} cannot be exported to ONNX")
    vectors = emit_module(decoder.embed, tokens)
    values, state = emit_layer(tokens.graph, decoder.layer, vectors, rows, state)
    logits = emit_module(decoder.output, emit_module(decoder.bridge, values))
    return logits.apply("LogSoftmax", axis=-1), state


def language_model(decoder: Decoder) -> tuple[Graph, StatePorts]:
    """One graph for whole texts and for one token after the other: the state is an input and an output."""
    graph, ports = Graph(), StatePorts.of(state_fields(decoder.layer))
    tokens = graph.input("tokens", INTEGER, ["batch", "time"])
    rows = Rows.of(tokens, lengths_input(graph))
    log_probabilities, state = decoder_step(decoder, tokens, rows, ports.inputs(graph))
    graph.output("log_probabilities", log_probabilities, ["batch", "time", decoder.output.out_features])
    ports.outputs(graph, state)
    return graph, ports


def masked_language_model(model: MaskedLM) -> Graph:
    """The log-probabilities (B, T, V) of the token at each place, from what is read there and everywhere else."""
    graph = Graph()
    vectors, rows = _read_text(graph, model.encoder.embed)
    values, _ = emit_layer(graph, model.encoder.layer, vectors, rows)
    logits = emit_module(model.output, emit_module(model.transform, values))
    table = rows.clear_padding(logits.apply("LogSoftmax", axis=-1))
    graph.output("log_probabilities", table, ["batch", "time", model.output.out_features])
    return graph


def bidirectional_language_model(model: BiLM) -> Graph:
    """The log-probabilities (B, T, V) of the token after each one; and of the one before, read from the end."""
    graph = Graph()
    vectors, rows = _read_text(graph, model.encoder.embed)
    inputs = vectors, reverse_padded(vectors, rows)
    layers = model.encoder.forward_layer, model.encoder.backward_layer
    names = "log_probabilities", "backward_log_probabilities"
    for name, layer, bridge, values in zip(names, layers, model.bridges, inputs, strict=True):
        outputs, _ = emit_layer(graph, layer, values, rows)
        logits = emit_module(model.output, emit_module(bridge, outputs))
        table = rows.clear_padding(logits.apply("LogSoftmax", axis=-1))
        graph.output(name, table, ["batch", "time", model.output.out_features])
    return graph


def _read_text(graph: Graph, embed: Embedding | CharacterEmbedding) -> tuple[Value, Rows]:
    """The boundary token and the tokens of a text, as ids or as the characters of words."""
    name = "characters" if isinstance(embed, CharacterEmbedding) else "tokens"
    vectors = text_vectors(graph, embed, name=name, axes=("batch", "time"))
    return vectors, Rows.of(vectors, lengths_input(graph))
