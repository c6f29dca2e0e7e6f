r"""The command ``serve``: a page for people, on this machine unless told otherwise."""

from __future__ import annotations

import argparse
import socket
from contextlib import suppress

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
    files = None
    if args.media is not None and args.choices is not None:
        files = read_choices(args.choices, args.media).files
    try:
        with Ask(args).open() as study:
            app = create_app(
                study,
                files=files,
                media=args.media,
                template=args.template,
                prompt=args.prompt,
                language=args.language,
                database=args.database,
                per_person=args.per_person,
            )
            host = own_address() if args.host in ("0.0.0.0", "::") else args.host
            store, base = app.state.desk.store, f"http://{host}:{args.port}"
            print(f"Your page: {base}/owner/{store.owner}")
            print(f"To join:   {base}/join/{store.invitation}", flush=True)
            uvicorn.run(app, host=args.host, port=args.port, log_level="warning")
    except (BotorchError, OSError) as error:
        raise UsageError(str(error)) from error
    return 0


def own_address() -> str:
    """The address of this machine for others in its network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route, suppress(OSError):
        route.connect(("192.0.2.1", 9))  # nowhere, and nothing is sent
        return str(route.getsockname()[0])
    return socket.gethostname()
