"""Transcribers with CTC: the best path, and the log-probabilities of the tokens at each frame."""

from llvmlite import ir

from seqloom.kernels.llvm.ir_builder import Value, integer
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.models.transcription.transcriber import Transcriber
from seqloom.standalone.builder import SHORT, Addresses, Count, ModelBuilder, Rows
from seqloom.standalone.interface import Frames
from seqloom.standalone.models import Embed, encode
from seqloom.standalone.modules import emit_module, largest, log_softmax


def transcriber(b: ModelBuilder, arguments: Addresses, *, model: Transcriber, embed: Embed, frames: Frames) -> None:
    """The most probable token of each frame, repeats merged and blanks removed, and how many tokens there are."""
    table = log_softmax(b, emit_module(b, model.output, encode(b, model, embed, arguments)))
    target, used = arguments["frame_log_probabilities"], table.count.value
    b.copy(table, Rows(target, table.count, table.size, table.size))
    # Trimmed silence leaves room for frames that do not exist.
    total = _most_frames(b, frames)
    missing = Count(b.builder.sub(total, used), 0, 0)
    rest = b.emit.advance(target, b.builder.mul(used, integer(table.size)))
    b.fill(Rows(rest, missing, table.size, table.size), 0.0)
    _store_best_path(b, table, arguments, total)


def _most_frames(b: ModelBuilder, frames: Frames) -> Value:
    """The number of frames if nothing is trimmed."""
    builder, length = b.builder, b.length.value
    count = builder.sdiv(builder.sub(length, integer(frames.window)), integer(frames.hop))
    count = builder.add(count, integer(frames.factor))
    is_short = builder.icmp_signed("<", length, integer(frames.window))
    return builder.select(is_short, integer(0), builder.sdiv(count, integer(frames.factor)))


def _store_best_path(b: ModelBuilder, table: Rows, arguments: Addresses, total: Value) -> None:
    emit, builder = b.emit, b.builder
    blank = integer(BLANK)
    with emit.loop_carrying(0, table.count.value, 1, (blank, integer(0))) as (row, (before, used), advance):
        token, _ = largest(b, table.size, b.row_address(table, row))
        # A repeat or a blank is written too, but the next token replaces it.
        builder.store(builder.trunc(token, SHORT), b.pointer(arguments["tokens"], used, SHORT), align=4)
        is_new = builder.and_(builder.icmp_signed("!=", token, blank), builder.icmp_signed("!=", token, before))
        final = advance(token, builder.add(used, builder.zext(is_new, ir.IntType(64))))
    builder.store(builder.trunc(final[1], SHORT), b.pointer(arguments["token_count"], 0, SHORT), align=4)
    builder.store(builder.trunc(table.count.value, SHORT), b.pointer(arguments["frame_count"], 0, SHORT), align=4)
    with emit.loop(final[1], total) as row:
        builder.store(SHORT(BLANK), b.pointer(arguments["tokens"], row, SHORT), align=4)
