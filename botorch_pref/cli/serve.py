r"""The command ``serve``: a page for people, on this machine unless told otherwise."""

from __future__ import annotations

import argparse

from botorch.exceptions.errors import BotorchError

from botorch_pref.cli.domain import read_choices
from botorch_pref.cli.parser import UsageError
from botorch_pref.cli.session import Ask
from botorch_pref.progress import notice


def serve(args: argparse.Namespace) -> int:
    """Serve a study until Ctrl-C."""
    try:
        with notice("starting ..."):
            import uvicorn

            from botorch_pref.serve import create_app
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed: pip install 'botorch-pref[serve]'"
        ) from error
    if (args.media is None) != (args.choices is None) and args.media is not None:
        raise UsageError("--media needs --choices, whose column names the files.")
    files = read_choices(args.choices, args.media).files if args.media is not None else None
    try:
        with Ask(args).open() as study:
            app = create_app(
                study,
                files=files,
                media=args.media,
                template=args.template,
                per_person=args.per_person,
            )
            store, base = app.state.desk.store, f"http://{args.host}:{args.port}"
            print(f"Your page: {base}/owner/{store.owner}")
            print(f"To join:   {base}/join/{store.invitation}", flush=True)
            uvicorn.run(app, host=args.host, port=args.port, log_level="warning")
    except (BotorchError, OSError) as error:
        raise UsageError(str(error)) from error
    return 0
