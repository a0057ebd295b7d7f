"""Configuration of Sphinx, which builds the documentation site; see scripts/docs."""

import inspect
import re
from typing import Any, ClassVar

from docutils import nodes
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Name, Operator, String, Text
from sphinx.application import Sphinx

import seqloom

project = "Seqloom"
author = copyright = "The Seqloom developers"  # noqa: A001
version = release = seqloom.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["colon_fence", "substitution"]
myst_substitutions = {"version": release}
myst_heading_anchors = 4
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "github-dark"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
autodoc_default_options = {"exclude-members": "model_config, set_score_request"}
add_module_names = False
python_maximum_signature_line_length = 110
toc_object_entries_show_parents = "hide"

copybutton_exclude = ".linenos, .gp, .c1"  # the remark after a command is not copied

html_theme = "furo"
html_title = "Seqloom"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/logo.svg"
html_logo = "static/logo.svg"
html_copy_source = html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#145a96",
        "color-brand-content": "#1f6fb4",
        "color-brand-visited": "#1f6fb4",
        "color-sidebar-background": "#f7f9fb",
        "color-sidebar-background-border": "#e6e9ed",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7db8ec",
        "color-brand-content": "#7db8ec",
        "color-brand-visited": "#7db8ec",
        "color-background-primary": "#14171b",
        "color-background-secondary": "#191d22",
        "color-sidebar-background": "#191d22",
        "color-sidebar-background-border": "#262b32",
    },
}


class CommandLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """Commands with remarks after #, and what the commands print."""

    name = "Commands"
    aliases: ClassVar[list[str]] = ["commands"]
    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (
                r"^(\$ )?(seqloom|torchrun|scripts/\w+|pip|docker|git|source|echo|cd|tensorboard)(?= |$)",
                bygroups(Text, Name.Function),
                "command",
            ),
            (r".*\n", Text),
        ],
        "command": [
            (r"\n", Text, "#pop"),
            (r" +(?=# )", Text, "remark"),
            (r"'[^'\n]*'|\"[^\"\n]*\"", String),
            (r"(?<= )--?[a-z][\w-]*", Name.Attribute),
            (r"[|>](?= )", Operator),
            (r"(?<=\| )seqloom(?= )", Name.Function),
            (r"[^\s'\"|>]+", Text),
            (r".", Text),
        ],
        "remark": [(r"[^\n]+", Comment.Single), (r"\n", Text, "#pop:2")],
    }


def describe_fields(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Add the fields of a configuration section to its documentation."""
    if what == "class" and issubclass(obj, BaseModel):
        fields = {key: field for key, field in obj.model_fields.items() if field.description}
        lines += ["", *(f":param {key}: {field.description}" for key, field in fields.items()), ""]


def sign_section(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str, str | None] | None:
    """The signature of a configuration section: its fields and their defaults."""
    if what != "class" or not issubclass(obj, BaseModel):
        return None
    parameters = [
        inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is PydanticUndefined else field.default,
        )
        for key, field in obj.model_fields.items()
        if field.description
    ]
    return str(inspect.Signature(parameters)), returned


def colour_commands(app: Sphinx, doctree: nodes.document) -> None:
    """Colour commands, and indented blocks, which have no language in Markdown."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language") in ("none", "sh"):
            block["language"] = "commands"


def drop_back_links(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Source pages link back to the documentation of a name by its module, which is not where we document it."""
    if page.startswith("_modules/"):
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context["body"])


def setup(app: Sphinx) -> None:
    app.add_lexer("commands", CommandLexer)
    app.connect("doctree-read", colour_commands)
    app.connect("html-page-context", drop_back_links)
    app.connect("autodoc-process-docstring", describe_fields)
    app.connect("autodoc-process-signature", sign_section)
