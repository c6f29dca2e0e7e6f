"""How Sphinx builds the site; see "Documentation" in CONTRIBUTING.md."""

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext import autosummary

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from members import PublicMembers

from botorch_pref import __version__

project = "botorch_pref"
author = "botorch_pref contributors"
project_copyright = "botorch_pref contributors, MIT licence"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "citations",
    "constants",
    "mathml",
    "pictures",
    "signatures",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
language = "en"

html_theme = "furo"
html_title = f"botorch_pref {__version__}"
html_static_path = ["_static"]
html_css_files = ["reference.css"]
html_math_renderer = "mathml"
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# A summary ends where a sentence does, and not at these.
autosummary.WELL_KNOWN_ABBREVIATIONS += ("App.", "Eq.", "eq.", "Sec.", "sec.")
autosummary_context = {"public_members": PublicMembers()}
maximum_signature_line_length = 130
napoleon_numpy_docstring = False
napoleon_attr_annotations = False  # signatures have the types
toc_object_entries_show_parents = "hide"

# What other projects document is named here, and not linked: a build asks no network.
nitpicky = True
_OTHERS = (
    "torch|botorch|gpytorch|linear_operator|numpy|scipy|pandas|matplotlib"
    "|optuna|optuna_dashboard|ax"
)
nitpick_ignore_regex = [
    ("py:.*", rf"({_OTHERS}|{'|'.join(sys.stdlib_module_names)})\..+"),
    ("py:exc", "InputDataError"),  # BoTorch's
]
suppress_warnings = ["ref.citation"]  # papers that only private modules cite

_PAGES = {
    "docs/beliefs.md": "beliefs",
    "experiments/README.md": "experiments",
    "../docs/papers.md": "papers",
    "CHANGELOG.md": "changelog",
}
_LINK = re.compile(r"\[([^]]+)\]\((?!https?:|#)([^)]+)\)")


def _to_page(link: re.Match[str]) -> str:
    """A link to a file of the repository: to its page, or the plain text where it has none."""
    text, target = link.groups()
    return f"[{text}]({_PAGES[target]}.md)" if target in _PAGES else text


def _repoint(app: Sphinx, path: Path, parent: str, content: list[str]) -> None:
    """Turn the links of the files that the pages include."""
    content[0] = _LINK.sub(_to_page, content[0])


def _fold(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Unfold the sidebar at the page alone; all names on all pages double the time of a build."""
    whole = context["toctree"]
    context["toctree"] = lambda **options: whole(**{**options, "collapse": True})


def setup(app: Sphinx) -> None:
    """Listen for included files, and for pages before the theme does."""
    app.connect("include-read", _repoint)
    app.connect("html-page-context", _fold, priority=100)
