"""The C header of a compiled model."""

import re
from fractions import Fraction
from textwrap import wrap

from seqloom.standalone.interface import BAD_LENGTH, BAD_TOKEN, BAD_WORKSPACE, Assembly, Port, StandaloneModel, Texts

KEYWORDS = {
    *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern"),
    *("float", "for", "goto", "if", "inline", "int", "long", "register", "return", "short", "signed", "sizeof"),
    *("static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while"),
}


def identifier(name: str) -> str:
    """A name as the start of names in C."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII) or "model"
    return f"model_{cleaned}" if cleaned[0].isdigit() or cleaned in KEYWORDS else cleaned


def header(model: StandaloneModel, name: str, assembly: Assembly, *, title: str) -> str:
    """The header: sizes, functions, and what a caller has to know."""
    upper = name.upper()
    per_element, constant = assembly.workspace
    lines = [
        *_comment(title, *model.notes),
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]
    for port in (*model.inputs, *model.outputs):
        lines += [f"#define {constant_name} {size}" for constant_name, size in _sizes(name, port)]
    for texts in model.texts:
        lines.append(f"#define {upper}_{texts.name.upper()}_COUNT {len(texts.texts)}")
    lines += [
        "",
        *_comment("Bytes of workspace for a sequence of up to this length, as a constant and as a function."),
        f"#define {upper}_WORKSPACE_SIZE(length) ((size_t){constant} + {_product(per_element)})",
        f"size_t {name}_workspace_size(int32_t length);",
        "",
        *_comment(*_predict_comment(model)),
        f"int32_t {name}_predict({', '.join(_parameters(model))});",
    ]
    for texts in model.texts:
        lines += ["", *_text_functions(name, texts)]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def _comment(*paragraphs: str) -> list[str]:
    lines = [line for paragraph in paragraphs for line in (wrap(paragraph.replace("*/", "* /"), 114) or [""])]
    if len(lines) == 1:
        return [f"/* {lines[0]} */"]
    return ["/*", *(f" * {line}".rstrip() for line in lines), " */"]


def _sizes(name: str, port: Port) -> list[tuple[str, int]]:
    """Names of the fixed sizes of an array, and of the number of its ids."""
    fixed = [size for size in port.shape if size != "length"]
    names = (
        [f"{name}_{port.name}_SIZE"]
        if len(fixed) == 1
        else [f"{name}_{port.name}_SIZE_{index}" for index in range(1, len(fixed) + 1)]
    )
    return [(constant.upper(), size) for constant, size in zip(names, fixed, strict=True)]


def _parameters(model: StandaloneModel) -> list[str]:
    inputs = [f"const {port.kind} *{port.name}" for port in model.inputs]
    outputs = [f"{port.kind} *{port.name}" for port in model.outputs]
    return [*inputs, "int32_t length", *outputs, "void *workspace", "size_t workspace_size"]


def _predict_comment(model: StandaloneModel) -> list[str]:
    lines = ["The answer of the model for one sequence. Arrays are dense, in the order of C:"]
    for port in (*model.inputs, *model.outputs):
        shape = "".join(f"[{_length(port) if size == 'length' else size}]" for size in port.shape)
        lines.append(f"  {port.name}{shape}: {port.description}")
    errors = f"{BAD_LENGTH} if the length is negative, {BAD_TOKEN} if a number is not in the vocabulary"
    errors += f", {BAD_WORKSPACE} if the workspace is too small"
    return [
        *lines,
        "  length: the number of elements of the sequence; 0 is allowed.",
        "  workspace: memory of any alignment that the call uses, and that no other thread uses at the same time.",
        f"Returns 0 or an error: {errors}. It allocates nothing and calls no other function.",
    ]


def _product(per_element: Fraction) -> str:
    """Bytes for a length, as an expression of C."""
    product = f"(size_t){per_element.numerator} * (size_t)(length)"
    return product if per_element.denominator == 1 else f"{product} / {per_element.denominator}"


def _length(port: Port) -> str:
    """The first size of an array, as an expression of C."""
    window, hop, factor = port.frames
    frames = "length" if (window, hop) == (1, 1) else f"((length - {window}) / {hop} + 1)"
    return frames if factor == 1 else f"({frames} + {factor - 1}) / {factor}"


def _text_functions(name: str, texts: Texts) -> list[str]:
    lines = [
        *_comment(f"The {texts.name} of a number, as UTF-8; a null pointer if there is none."),
        f"const char *{name}_{texts.name}(int32_t number);",
    ]
    if texts.is_looked_up:
        other = f"{texts.unknown} if it is unknown" if texts.unknown >= 0 else "-1 if there is none"
        lines += [
            *_comment(f"The number of a {texts.name}, which is UTF-8 and ends with a zero; {other}."),
            f"int32_t {name}_find_{texts.name}(const char *text);",
        ]
    return lines
