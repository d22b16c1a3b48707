"""The console as a process would serve it, and Debian's Chromium in front of it."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager

from seriatim.console.app import create_app
from seriatim.console.serving import Server
from seriatim.console.who import everybody
from seriatim.listening.address import listening

CHROMIUM = shutil.which("chromium")


@contextmanager
def served(box, **options):
    """The address of a console that is served by a thread."""
    app = create_app(box, **{"identify": everybody()} | options)
    server = Server(app, listening("127.0.0.1", 0, "--listen"))
    thread = threading.Thread(target=server.serve_until_stopped)
    thread.start()
    try:
        yield server.address
    finally:
        server.handle_exit(15, None)
        thread.join(120)
    assert not thread.is_alive()


@contextmanager
def chromium():
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
