"""A real browser, and the console in it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.requirements import miss

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # containers have no user namespaces; the browser loads nothing but the server of the test
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--no-first-run",
)
WAIT_MS_MAX = 30_000
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 800}

expect.set_options(timeout=WAIT_MS_MAX)


def find_chromium() -> str | None:
    """Return the path of a Chromium: of the machine, or of Playwright if it has installed one."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    installed = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    return next((str(path) for path in sorted(installed.glob("chromium-*/chrome-linux*/chrome"))), None)


@contextmanager
def start_browser() -> Iterator[Browser]:
    program = find_chromium() or miss("Chromium", "apt install chromium, or playwright install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS])
        yield browser
        browser.close()


class ConsolePage:
    """A tab with the console. `problems` are the errors that the browser has reported: none may be."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": DESKTOP, "locale": "en-GB", **options})
        self.context.set_default_timeout(WAIT_MS_MAX)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        # A browser reports every reply of 400 and above, and every lost connection; those are what many tests cause.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def open(self, address: str = "", token: str | None = None) -> Page:
        """Open a page of the console, and sign in if there is a token."""
        self.page.goto(f"{self.url}/console/#/{address}")
        if token is not None:
            self.sign_in(token)
        return self.page

    def sign_in(self, token: str) -> None:
        dialog = self.page.get_by_role("dialog", name="Sign in")
        dialog.get_by_label("Token").fill(token)
        dialog.get_by_role("button", name="Sign in").click()
        dialog.wait_for(state="detached")

    def close(self) -> None:
        self.context.close()
        assert self.problems == []
