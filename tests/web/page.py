"""The page halfulp.html in the tests' browser."""
from __future__ import annotations

import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from chromium import browser  # noqa: E402

FILE = Path(os.environ["HALFULP_WEB"]) / "halfulp.html"
SCENES = ("bits", "line", "cliff", "staircase", "sums", "positions", "product", "block")


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not FILE.exists():
            raise unittest.SkipTest("no halfulp.html (./run web builds it)")
        cls.browser = browser()
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.set_script_timeout(120)
        cls.browser.set_window_size(1200, 1000)
        cls.browser.get(FILE.as_uri())
        cls.wait(lambda: cls.browser.execute_script("return document.documentElement.dataset.ready"))
        cls.wait(lambda: cls.browser.execute_script("return document.getElementById('say').textContent"))

    @staticmethod
    def wait(condition, seconds: float = 20):
        end = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > end:
                raise AssertionError("nothing happened")
            time.sleep(0.02)
        return found

    def text(self, name: str) -> str:
        return self.browser.execute_script("return document.getElementById(arguments[0]).textContent", name)

    def state(self) -> str:
        return self.browser.execute_script("return location.hash")

    def go(self, address: str) -> None:
        """Opens an address of the page anew."""
        self.browser.get("about:blank")
        self.browser.get(FILE.as_uri() + address)
        self.wait(lambda: self.browser.execute_script("return document.documentElement?.dataset.ready") and (self.text("command") or self.text("refused")))

    def enter(self, field: str, text: str) -> None:
        """Sets a control as its user would, all at once, and waits for what comes of it."""
        before = self.state()
        self.browser.execute_script("""const input = document.getElementById('field-' + arguments[0]);
            input.value = arguments[1]; input.dispatchEvent(new Event(input.tagName === 'SELECT' ? 'change' : 'input'));""", field, text)
        self.wait(lambda: self.state() != before or self.text(f"field-{field}-error"))

    def table(self, number: int = 0) -> list[list[str]]:
        return self.browser.execute_script("""return [...document.querySelectorAll('#stage table')][arguments[0]] === undefined ? [] :
            [...[...document.querySelectorAll('#stage table')][arguments[0]].tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));""", number)
