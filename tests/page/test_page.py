"""The page without a browser: it shows every experiment and claim, parses, fetches nothing, and bad input is one line."""
from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import made_reports as made
from parsed_page import Page, page_of, text_of

from halfulp_page import About, BadInput
from halfulp_page import inputs
from halfulp_page.__main__ import main
from halfulp_page.plots import PLOTS


class Structure(unittest.TestCase):
    """Checks what must hold for every page, on the page of these reports."""

    @classmethod
    def setUpClass(cls):
        cls.reports = made.golden() + [made.nasty()]
        cls.page = page_of(*cls.reports, about={"underflow": About("What is the question?")})

    def test_it_is_nested_as_it_should_be(self):
        self.assertEqual(self.page.wrong, [])

    def test_every_experiment_claim_and_table_is_there(self):
        self.assertGreaterEqual(len(self.reports), 16)
        ids = set(self.page.ids)
        for report in self.reports:
            name = report["experiment"]
            self.assertIn(f"e-{name}", ids)
            for claim in report["claims"]:
                self.assertIn(f"e-{name}-{claim['id']}", ids)
            for table in report["results"]:
                if report["results"][table]["rows"]:
                    self.assertIn(f"e-{name}-t-{table}", ids)
        self.assertIn("What is the question?", text_of(self.page))
        self.assertIn("underflow found 12 %.", text_of(self.page))

    def test_every_experiment_of_ours_has_pictures(self):
        for report in self.reports:
            drawn = [a for a, _ in self.page.all("svg") if (a.get("aria-labelledby") or "").startswith(f"p-{report['experiment']}-")]
            if report["experiment"] == "somebodys_own":
                self.assertEqual(drawn, [])
            else:
                self.assertIn(report["experiment"], PLOTS)
                self.assertGreater(len(drawn), 0, report["experiment"])
        self.assertEqual(len([p for p in self.page.all("p") if p[1].startswith("No picture:")]), 0)

    def test_ids_are_there_once_and_every_reference_is_answered(self):
        ids = self.page.ids
        self.assertEqual(len(ids), len(set(ids)))
        for _, attributes, _ in self.page.elements:
            for name in ("href", "aria-labelledby"):
                for word in (attributes.get(name) or "").split() if name != "href" or (attributes.get("href") or "").startswith("#") else []:
                    self.assertIn(word.lstrip("#"), ids)
            for word in re.findall(r"url\(#([^)]*)\)", " ".join(str(v) for v in attributes.values())):
                self.assertIn(word, ids)

    def test_nothing_is_fetched_and_nothing_runs(self):
        for tag, attributes, _ in self.page.elements:
            self.assertNotIn(tag, ("script", "iframe", "img", "object", "embed", "base", "form"))
            for name, value in attributes.items():
                self.assertFalse(name.startswith("on"), name)
                if name in ("src", "href", "srcset", "data", "action"):
                    self.assertTrue((value or "").startswith(("#", "data:image/svg+xml;")) or value == "data:,", f"{tag} {name}={value}")
        style = "".join(text for _, text in self.page.all("style"))
        self.assertNotIn("@import", style)
        self.assertNotIn("http", style)
        self.assertEqual(style.count("url("), 0)

    def test_headings_are_in_order(self):
        levels = [int(tag[1]) for tag, _, _ in self.page.elements if re.fullmatch("h[1-6]", tag)]
        self.assertEqual(levels[0], 1)
        self.assertEqual(levels.count(1), 1)
        for before, after in zip(levels, levels[1:]):
            self.assertLessEqual(after, before + 1)

    def test_pictures_are_described(self):
        titles = {a["id"]: text for a, text in self.page.all("title") + self.page.all("desc") if a.get("id")}
        for attributes, _ in self.page.all("svg"):
            if attributes.get("aria-hidden") == "true":
                continue
            self.assertEqual(attributes.get("role"), "img")
            words = [titles[i] for i in attributes["aria-labelledby"].split()]
            self.assertEqual(len(words), 2)
            self.assertRegex(words[1], r"\d")  # of the data

    def test_tables_have_captions_and_headings_with_a_scope(self):
        self.assertEqual(len(self.page.all("table")), len(self.page.all("caption")))
        self.assertTrue(all(a.get("scope") in ("col", "row", "colgroup") for a, _ in self.page.all("th")))
        regions = [a for a, _ in self.page.all("div") if a.get("class") == "scroll"]
        self.assertEqual(len(regions), len(self.page.all("table")))
        labels = [a["aria-label"] for a in regions]
        self.assertTrue(all(a.get("tabindex") == "0" and a.get("role") == "region" for a in regions))
        self.assertEqual(len(labels), len(set(labels)))

    def test_markup_of_reports_is_text(self):
        self.assertIn("<script>alert('x')</script>& \"quoted\" $x^2$ ü ∞", text_of(self.page))

    def test_figures_at_the_top(self):
        tiles = next(text for a, text in self.page.all("ul") if a.get("class") == "tiles")
        n = len(self.reports)
        for words in (f"{n} experiments", f"✓ {n} claims held", "✗ 1 claim failed", f"≠ {n} claims differ", f"○ {n} claims skipped"):
            self.assertIn(words, " ".join(tiles.split()))
        self.assertIn(f"{2000 * n:,} results of {2 * n} operations compared, {3 * n} differ", text_of(self.page))

    def test_claims_that_retell_are_counted_once(self):
        page = page_of(*made.golden()[:2], about={made.golden()[0]["experiment"]: About(retells=True)})
        self.assertIn("✓ 1", " ".join(text_of(page).split()))

    def test_claims_that_are_not_counted_are_named(self):
        """The columns below the figures add up to more than these, and the page says by what."""
        first, second = (report["experiment"] for report in made.golden()[:2])
        page = page_of(*made.golden()[:2], about={first: About(retells=True)})
        self.assertIn(f"Not counted in these figures: the claims of {first}, which repeat", text_of(page))
        alone = page_of(made.golden()[0], about={first: About(retells=True)})  # where they are counted
        for other in (alone, page_of(*made.golden()[:2], about={second: About()})):
            self.assertNotIn("Not counted", text_of(other))

    def test_columns_of_claims_and_of_results_are_told_apart(self):
        summary = next(a for a in self.page.all("table") if a[0].get("class") == "summary")[1]
        self.assertLess(summary.index("claims"), summary.index("results"))
        groups = [(a["colspan"], text) for a, text in self.page.all("th") if a.get("scope") == "colgroup"]
        self.assertEqual(groups, [("4", "claims"), ("2", "results")])


class SideBySide(unittest.TestCase):
    def setUp(self):
        self.a = made.swamping_with([["fp16", "nearest-even", "separate", 2.0, 1.0], ["fp16", "nearest-even", "separate", 4.0, 0.5], ["bf16", "nearest-even", "separate", 2.0, 0.25]])
        self.b = json.loads(json.dumps(self.a))

    def test_the_same(self):
        page = page_of(self.a, self.b)
        self.assertIn("The results are the same.", text_of(page))
        self.assertEqual(page.wrong, [])
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertEqual([a for a, _ in page.all("td") if "changed" in (a.get("class") or "")], [])

    def test_cells_and_claims_that_differ_are_marked(self):
        self.b["results"]["ratios"]["rows"][1][4] = 0.625
        self.b["claims"][0]["measured"] = {"fp16": 1024}
        self.b["config"]["seed"] = 2
        page = page_of(self.a, self.b)
        changed = [" ".join(text.split()) for a, text in page.all("td") if "changed" in (a.get("class") or "")]
        self.assertEqual(changed, ["A: 0.5≠ differs, B: 0.625"])
        self.assertIn("1 of 3 rows differ", text_of(page))
        self.assertIn("in 1 of them, the verdict, the expected or the measured value differs", text_of(page))
        self.assertIn("Parameters that differ", text_of(page))

    def test_rows_meet_by_their_names(self):
        self.b["results"]["ratios"]["rows"] = [self.b["results"]["ratios"]["rows"][i] for i in (2, 0)] + [["e4m3", "nearest-even", "separate", 2.0, 0.0]]
        text = text_of(page_of(self.a, self.b))
        self.assertIn("0 of 2 rows differ; 1 only in A; 1 only in B", text)

    def test_tables_that_cannot_be_compared(self):
        self.b["results"]["ratios"]["columns"][0]["name"] = "other"
        self.b["results"]["more"] = made.table([("x", "1")], [[1]])
        text = text_of(page_of(self.a, self.b))
        self.assertIn("the columns are others", text)
        self.assertIn("only in the second report", text)

    def test_three_are_refused(self):
        with self.assertRaisesRegex(BadInput, "the third report of swamping"):
            page_of(self.a, self.b, self.a)


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "a.json").write_text(json.dumps(made.golden()[0]), encoding="utf-8")
        (self.folder / "benchmarks.json").write_text("{}", encoding="utf-8")

    def run_main(self, *words):
        with contextlib.redirect_stderr(io.StringIO()) as error:
            return main([str(word) for word in words]), error.getvalue()

    def test_a_folder_of_reports(self):
        out = self.folder / "index.html"
        self.assertEqual(self.run_main(self.folder, "--out", out), (0, ""))
        self.assertIn("<!DOCTYPE html>", out.read_text(encoding="utf-8"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.json", "benchmarks.json", "index.html"])

    def test_a_folder_of_pages(self):
        """An overview, a page for each experiment, every picture as a file; links go to what is there."""
        (self.folder / "b.json").write_text(json.dumps(made.golden()[1]), encoding="utf-8")
        pages = self.folder / "pages"
        self.assertEqual(self.run_main(self.folder, "--out", str(pages) + "/"), (0, ""))
        names = [made.golden()[i]["experiment"] for i in (0, 1)]
        self.assertEqual(sorted(p.name for p in pages.iterdir()), sorted(["figures", "index.html", *(f"{name}.html" for name in names)]))
        linked = set()
        for path in pages.glob("*.html"):
            page = Page(path.read_text(encoding="utf-8"))
            self.assertEqual(page.wrong, [], path.name)
            self.assertEqual(len(page.ids), len(set(page.ids)), path.name)
            for _, attributes, _ in page.elements:
                target = attributes.get("href") or ""
                if target.startswith("#"):
                    self.assertIn(target[1:], page.ids, path.name)
                elif target and target != "data:,":
                    self.assertTrue((pages / target).is_file(), f"{path.name}: {target}")
                    linked.add(target)
        figures = {f"figures/{p.name}" for p in (pages / "figures").iterdir()}
        self.assertGreater(len(figures), 5)
        self.assertLessEqual(figures, linked)
        for name in figures:
            root = ElementTree.parse(pages / name).getroot()
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            self.assertNotIn("var(", ElementTree.tostring(root, encoding="unicode"))
            used = {e.get("{http://www.w3.org/1999/xlink}href", "#")[1:] for e in root.iter()} - {""}
            self.assertLessEqual(used, {e.get("id") for e in root.iter()}, name)

    def test_bad_input_is_one_line_and_leaves_the_page_alone(self):
        out = self.folder / "index.html"
        out.write_text("before", encoding="utf-8")
        (self.folder / "no.json").write_text("{", encoding="utf-8")
        (self.folder / "empty").mkdir()
        for words, message in (((self.folder / "no.json",), "no JSON"), ((self.folder / "absent.json",), "No such file"), ((self.folder / "benchmarks.json",), "no report"),
                               ((self.folder / "empty",), "no report in this folder"), ((self.folder / "a.json", "--rows", "-1"), "--rows"), ((self.folder / "a.json", "--about", "/absent"), "--about")):
            status, error = self.run_main(*words, "--out", out)
            self.assertEqual(status, 2)
            self.assertRegex(error, rf"^halfulp_page: [^\n]*{message}[^\n]*\n$")
            self.assertEqual(out.read_text(encoding="utf-8"), "before")
        for place in (self.folder / "absent" / "x.html", str(out) + "/"):
            self.assertEqual(self.run_main(self.folder / "a.json", "--out", place)[0], 2)
        self.assertEqual([f for f in os.listdir(self.folder) if f.endswith(".part")], [])


class Reading(unittest.TestCase):
    """Valid reports that cannot be drawn as they are."""

    def test_characters_that_no_page_can_hold_are_replaced(self):
        report = made.swamping_with([["fp16\u0001", "nearest-even", "separate", 2.0, 1.0], ["a\x00\ufffe\x1b[31m", "nearest-even", "separate", 4.0, 0.5]])
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "r.json")
            with open(file, "w", encoding="utf-8-sig") as out:  # with a byte-order mark, too
                json.dump(report, out)
            source = inputs.read(file)
        self.assertEqual([row[0] for row in source.report["results"]["ratios"]["rows"]], ["fp16\ufffd", "a\ufffd\ufffd\ufffd[31m"])
        self.assertEqual(page_of(source.report).wrong, [])


if __name__ == "__main__":
    unittest.main()
