r"""A page for people: one study and many participants, in a browser or by JSON (extra ``serve``).

The model is slow and people are fast, so nobody waits for it. An answer goes to a database beside
the study, and the next question, asked ahead with the present ones pending, is there at once. A
thread of its own then tells the study the answers and asks further questions.
"""

try:
    import jinja2  # noqa: F401
    import sqlalchemy  # noqa: F401
    import starlette  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"botorch_pref.serve needs {error.name}, which the extra `serve` installs: "
        "pip install 'botorch-pref[serve]'"
    ) from error

from botorch_pref.serve.app import create_app

__all__ = ["create_app"]
