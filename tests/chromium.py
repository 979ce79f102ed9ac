"""The browser of the tests."""
from __future__ import annotations

import shutil
import unittest

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service


def browser():
    """Chromium without a window and without a network, or the reason why there is none."""
    driver = shutil.which("chromedriver")
    if not driver:
        raise unittest.SkipTest("no chromedriver")
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    try:
        return webdriver.Chrome(service=Service(driver), options=options)
    except WebDriverException as why:
        raise unittest.SkipTest(f"no browser: {' '.join(str(why.msg).split())[:200]}") from None
