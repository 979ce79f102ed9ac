"""The page of the demo's reports in Chromium: it shows every experiment, fetches nothing, logs no errors, never
overflows, and keys reach everything.

HALFULP: the program; HALFULP_REPORTS: a folder of reports; HALFULP_SCREENSHOTS: a folder for screenshots, if set.
"""
from __future__ import annotations

import base64
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from chromium import browser  # noqa: E402

WIDTHS = (360, 768, 1280)
EXHAUSTIVE = "HALFULP_EXHAUSTIVE" in os.environ
OVERFLOWING = """
  const wide = document.documentElement.clientWidth;
  return [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, .command') && e.getBoundingClientRect().right > wide + 1
    && getComputedStyle(e).clipPath === 'none').map(e => e.tagName + '.' + e.className).slice(0, 5);
"""

MEETING = """
  return [...document.querySelectorAll('svg')].flatMap(svg => {
    const paper = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent.trim(), t.getBoundingClientRect()]).filter(([word]) => word);
    const outside = texts.filter(([, t]) => t.right > paper.right || t.left < paper.left || t.bottom > paper.bottom);
    const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.35 * Math.min(a.height, b.height);
    const meeting = texts.flatMap(([word, t], i) => texts.slice(i + 1).filter(([, other]) => over(t, other)).map(([other]) => word + ' | ' + other));
    return [...outside.map(([word]) => word + ' leaves the slide'), ...meeting].map(what => svg.parentElement.id + ': ' + what);
  });
"""


class InABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser()
        cls.addClassCleanup(cls.browser.quit)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.reports = sorted(Path(os.environ["HALFULP_REPORTS"]).glob("*.json"))
        # A page of each, and one page of some: to lay out one of all took Chromium most of the time of these tests.
        cls.pages = Path(folder.name) / "pages"
        cls.draw(cls.reports, f"{cls.pages}/")
        cls.some = cls.reports if EXHAUSTIVE else cls.reports[::3]
        cls.page = Path(folder.name) / "index.html"
        cls.draw(cls.some, str(cls.page))
        cls.pair = cls.write_pair(Path(folder.name))

    @staticmethod
    def draw(reports: list[Path], out: str) -> None:
        subprocess.run([os.environ["HALFULP"], "page", *map(str, reports), "--out", out, "--python", sys.executable], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def write_pair(cls, folder: Path) -> Path:
        """Two reports of an experiment in which every number differs."""
        report = json.loads(cls.reports[0].read_text(encoding="utf-8"))
        # A finding would no longer be that of its tables; reports of schema 1 have none.
        report["schema_version"] = 1
        del report["finding"]
        for table in report["results"].values():
            table["rows"] = [[c + 1 if isinstance(c, float) else c for c in row] for row in table["rows"]]
        (folder / "after.json").write_text(json.dumps(report), encoding="utf-8")
        page = folder / "pair.html"
        cls.draw([cls.reports[0], folder / "after.json"], str(page))
        return page

    def show(self, width: int = 1280, scheme: str = "light", media: str = "", page: Path | None = None) -> None:
        # Through the protocol, because windows have a minimum width.
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.browser.get((page or self.page).as_uri())

    def keep(self, name: str) -> None:
        if folder := os.environ.get("HALFULP_SCREENSHOTS"):
            self.browser.save_screenshot(str(Path(folder) / f"{name}.png"))

    def test_every_experiment_and_claim_is_there(self):
        self.assertGreaterEqual(len(self.some), 4)
        own = [(file, self.pages / f"{file.stem}.html") for file in self.reports]
        for file, page in own + [(file, self.page) for file in self.some]:
            if self.browser.current_url != page.as_uri():
                self.show(page=page)
            report = json.loads(file.read_text(encoding="utf-8"))
            section = self.browser.find_element(By.CSS_SELECTOR, f"section[aria-labelledby='e-{report['experiment']}']")
            self.assertEqual(section.find_element(By.TAG_NAME, "h2").text, report["title"])
            pictures = section.find_elements(By.CSS_SELECTOR, "svg[role=img]")
            self.assertTrue(pictures and all(p.size["width"] > 200 and p.size["height"] > 50 for p in pictures), report["experiment"])
            self.assertEqual(len(section.find_elements(By.CSS_SELECTOR, "table.claims tbody tr")), len(report["claims"]))

    def test_nothing_is_asked_of_the_network_and_nothing_complains(self):
        self.browser.get_log("performance")
        self.browser.get_log("browser")
        self.show()
        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        self.assertTrue(any(url == self.page.as_uri() for url in asked))  # the log works
        self.assertEqual([url for url in asked if url != self.page.as_uri() and not url.startswith("data:")], [])
        self.assertEqual(self.browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith('data:'))"), [])
        self.assertEqual(self.browser.get_log("browser"), [])

    def test_nothing_overflows_at_any_width_in_light_and_dark(self):
        each = [self.pages / f"{file.stem}.html" for file in self.reports]
        for page, scheme, width in itertools.product((self.page, self.pair, *each), ("light", "dark"), WIDTHS):
            if (page in each) + (scheme == "dark") + (width != WIDTHS[0]) > 1 and not EXHAUSTIVE:  # one thing at a time
                continue
            with self.subTest(page=page.name, width=width, scheme=scheme):
                self.show(width, scheme, page=page)
                self.keep(f"{page.stem}-{width}-{scheme}")
                for opened in (False, True):
                    self.browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = arguments[0] || d.open", opened)
                    self.assertEqual(self.browser.execute_script("const d = document.documentElement; return [innerWidth, d.scrollWidth - d.clientWidth]"), [width, 0])
                    self.assertEqual(self.browser.execute_script(OVERFLOWING), [])

    def test_letters_of_slides_do_not_meet(self):
        """As the browser sets them: titles and names, ticks, legends, notes."""
        slides = sorted((self.pages / "figures").glob("*.svg"))
        self.assertGreater(len(slides), 100)
        together = self.pages / "slides.html"
        drawn = "".join(f'<div id="{slide.stem}">{slide.read_text(encoding="utf-8")}</div>' for slide in slides)
        together.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{drawn}', encoding="utf-8")
        self.show(page=together)
        self.assertEqual(self.browser.execute_script(MEETING), [])

    def test_dark_is_dark_and_ink_can_be_read(self):
        for scheme, dark in (("light", False), ("dark", True)):
            self.show(scheme=scheme)
            page, ink, axis = (self.luminance(self.browser.execute_script(script)) for script in (
                "return getComputedStyle(document.body).backgroundColor", "return getComputedStyle(document.body).color", "return getComputedStyle(document.querySelector('svg.plot text')).fill"))
            self.assertEqual(page < 0.1, dark)
            for colour in (ink, axis):
                self.assertGreater((max(page, colour) + 0.05) / (min(page, colour) + 0.05), 7)  # WCAG 2.2, 1.4.6
            for name in ("pass", "fail", "differs", "skipped", "soft", "link"):
                colour = self.luminance(self.browser.execute_script("document.body.style.color = `var(--${arguments[0]})`; return getComputedStyle(document.body).color", name))
                self.assertGreater((max(page, colour) + 0.05) / (min(page, colour) + 0.05), 4.5, name)  # 1.4.3

    @staticmethod
    def luminance(colour: str) -> float:
        parts = [float(p) / 255 for p in colour.split("(")[1].rstrip(")").split(",")[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def test_keys_reach_and_open_what_is_folded(self):
        self.show()
        self.press(Keys.TAB)
        skip = self.browser.switch_to.active_element
        self.assertEqual((skip.text, skip.is_displayed()), ("Skip to the experiments", True))
        skip.send_keys(Keys.ENTER)
        self.assertEqual(self.browser.execute_script("return document.activeElement.id"), "main")
        self.browser.execute_script("document.querySelector('section.experiment h3:nth-of-type(2)').setAttribute('tabindex', '-1'); document.querySelector('section.experiment h3:nth-of-type(2)').focus()")
        seen = []
        for _ in range(12):
            self.press(Keys.TAB)
            element = self.browser.switch_to.active_element
            seen.append((element.tag_name, element.get_attribute("class")))
            if element.tag_name == "summary" and element.find_element(By.XPATH, "..").get_attribute("open") is None:
                element.send_keys(Keys.ENTER)
                self.assertIsNotNone(element.find_element(By.XPATH, "..").get_attribute("open"))
        self.assertIn("summary", [tag for tag, _ in seen])
        self.assertIn(("div", "scroll"), seen)  # the opened table, which its caption names
        names = self.browser.execute_script("return [...document.querySelectorAll('.scroll')].map(e => [e.tabIndex, e.getAttribute('aria-label'), e.querySelector('caption').textContent])")
        self.assertTrue(all(index == 0 and label and caption for index, label, caption in names))

    def press(self, key: str) -> None:
        webdriver.ActionChains(self.browser).send_keys(key).perform()

    def test_print_opens_what_is_short(self):
        self.show(media="print")
        shown = self.browser.execute_script("return [...document.querySelectorAll('details.block:not(.long) table.claims')].every(t => t.checkVisibility({contentVisibilityAuto: true}) && t.getBoundingClientRect().height > 0)")
        self.assertTrue(shown)
        self.assertFalse(self.browser.find_element(By.TAG_NAME, "nav").is_displayed())
        pdf = base64.b64decode(self.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
        self.assertGreater(pdf.count(b"/Type /Page"), len(self.some))

    def test_on_paper_no_page_is_left_nearly_empty(self):
        """The first experiment of a page begins under what precedes it; those of the overview follow each other."""
        breaks = "return [...document.querySelectorAll('section.experiment')].map(s => getComputedStyle(s).breakBefore)"
        for page, wanted in ((self.pages / "index.html", {"auto"}), (self.pages / "swamping.html", {"auto"}), (self.page, {"auto", "page"})):
            self.show(media="print", page=page)
            found = self.browser.execute_script(breaks)
            self.assertEqual((found[0], set(found)), ("auto", wanted), page.name)
        self.show(media="print", page=self.pages / "index.html")
        pdf = base64.b64decode(self.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
        self.assertLess(len(re.findall(rb"/Type /Page\b", pdf)), 1.3 * len(self.reports))

    def test_legends_stay_in_sight(self):
        """Where a figure is scrolled, on a phone or a screen."""
        for width in WIDTHS:
            self.show(width)
            top, bottom, right = self.browser.execute_script("""
              const panels = [...document.querySelectorAll('figure')].find(f => f.querySelector('.legend') && f.querySelectorAll('.panel').length >= 4).querySelectorAll('.panel');
              panels[panels.length - 2].scrollIntoView({block: 'center'});
              const r = panels[0].closest('figure').querySelector('.legend').getBoundingClientRect();
              return [r.top, r.bottom, r.right];""")
            self.assertGreaterEqual(top, -1)
            self.assertLess(bottom, 450)
            self.assertLessEqual(right, width)

    def test_on_a_phone_contents_are_folded_and_captions_are_seen(self):
        page = self.pages / "attribution.html"
        for width, shown in ((390, False), (1280, True)):
            self.show(width, page=page)
            self.assertEqual(self.browser.execute_script("return document.querySelector('nav ol').checkVisibility({contentVisibilityAuto: true})"), shown)
        self.show(390, page=page)
        self.assertLess(self.browser.execute_script("return document.querySelector('section h2').getBoundingClientRect().top"), 300)
        self.browser.execute_script("for (const d of document.querySelectorAll('main details')) d.open = true")
        wide = self.browser.execute_script("return [...document.querySelectorAll('caption')].filter(c => c.getBoundingClientRect().width > c.closest('.scroll').clientWidth + 1).map(c => c.textContent)")
        self.assertEqual(wide, [])

    def test_saved_pictures_hold_all_that_is_drawn(self):
        """Letters and marks lie on the file's paper."""
        outside = """
          const [width, height] = document.documentElement.getAttribute('viewBox').split(' ').slice(2).map(Number);
          return [...document.querySelectorAll('text')].filter(t => t.textContent.trim()).map(t => [t.getBoundingClientRect(), t.textContent])
            .filter(([r]) => r.left < 0 || r.top < 0 || r.right > width || r.bottom > height).map(([r, text]) => text);"""
        figures = sorted((self.pages / "figures").glob("*.svg"))
        self.assertGreater(len(figures), 100)
        for figure in figures[::1 if EXHAUSTIVE else 3]:
            self.browser.get(figure.as_uri())
            self.assertEqual(self.browser.execute_script("return document.documentElement.getAttribute('width')"), "960")
            self.assertEqual(self.browser.execute_script(outside), [], figure.name)

    def test_no_chosen_name_is_missing(self):
        """The demo's reports have every series and panel that a picture chooses."""
        for page in self.pages.glob("*.html"):
            self.assertNotIn("ot in this report:", page.read_text(encoding="utf-8"), page.name)


if __name__ == "__main__":
    unittest.main()
