"""Transcribers of vectors with CTC: the best path, and the log-probabilities of the tokens at each frame."""

from llvmlite import ir

from seqloom.kernels.llvm.ir_builder import integer
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.models.transcription.transcriber import Transcriber
from seqloom.standalone.builder import SHORT, ModelBuilder, Rows
from seqloom.standalone.frames import encode_frames
from seqloom.standalone.models import Addresses, Scale, scaled
from seqloom.standalone.modules import emit_module, log_softmax


def transcriber(b: ModelBuilder, arguments: Addresses, *, model: Transcriber, size: int, scale: Scale | None) -> None:
    """The most probable token of each frame, repeats merged and blanks removed, and how many tokens there are."""
    frames = scaled(b, arguments["values"], b.length, size=size, scale=scale)
    logits = emit_module(b, model.output, encode_frames(b, model.encoder, frames))
    table = log_softmax(b, logits)
    out = Rows(arguments["frame_log_probabilities"], table.count, table.size, table.size)
    b.copy(table, out)
    _store_best_path(b, table, arguments)


def _store_best_path(b: ModelBuilder, table: Rows, arguments: Addresses) -> None:
    emit, builder = b.emit, b.builder
    blank = integer(BLANK)
    with emit.loop_carrying(0, table.count.value, 1, (blank, integer(0))) as (row, (before, used), advance):
        source = b.row_address(table, row)
        first = emit.load_scalar(emit.address(source, 0))
        with emit.loop_carrying(1, table.size, 1, (integer(0), first)) as (index, (token, best), following):
            value = emit.load_scalar(emit.address(source, index))
            is_better = builder.fcmp_ordered(">", value, best)
            chosen = following(builder.select(is_better, index, token), builder.select(is_better, value, best))
        # A repeat or a blank is written too, but the next token replaces it.
        builder.store(builder.trunc(chosen[0], SHORT), b.pointer(arguments["tokens"], used, SHORT), align=4)
        is_new = builder.and_(builder.icmp_signed("!=", chosen[0], blank), builder.icmp_signed("!=", chosen[0], before))
        final = advance(chosen[0], builder.add(used, builder.zext(is_new, ir.IntType(64))))
    builder.store(builder.trunc(final[1], SHORT), b.pointer(arguments["token_count"], 0, SHORT), align=4)
    with emit.loop(final[1], table.count.value) as row:
        builder.store(SHORT(BLANK), b.pointer(arguments["tokens"], row, SHORT), align=4)
