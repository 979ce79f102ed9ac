"""The page without a browser: it shows every experiment and claim, parses, fetches nothing, and no report makes it
fail."""
from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import urllib.parse
import warnings
from pathlib import Path
from xml.etree import ElementTree

import made_reports as made
from parsed_page import Page, page_of, text_of

from halfulp_page import About, BadInput, Source, render, render_folder
from halfulp_page import inputs
from halfulp_page.__main__ import main
from halfulp_page.plots import PLOTS
from halfulp_page.plots.axes import _names, extent
from halfulp_page.plots.networks import RANGES
from halfulp_page.plots.scenes_of_networks import spread
from halfulp_page.plots.scenes_of_sums import BLOCKS, SHOWN
from halfulp_page.plots.select import NoPicture, chart, in_order
from halfulp_page.plots.spec import Plot
from halfulp_page.plots.style import EXACT, VARIABLES, heat
from halfulp_page.processes import shared_out

EXHAUSTIVE = "HALFULP_EXHAUSTIVE" in os.environ


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
        self.assertTrue(all(a.get("scope") in ("col", "row") for a, _ in self.page.all("th")))
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


class OddReports(unittest.TestCase):
    """Every report gives a page, which says why a picture is missing."""

    def test_tables_without_rows_numbers_or_columns(self):
        for change in (made.emptied, lambda r: made.without_numbers(r, "NaN"), lambda r: made.without_numbers(r, None), lambda r: made.without_numbers(r, "Infinity"),
                       lambda r: made.without_columns(r, 2), lambda r: {**r, "results": {"other": made.table([("x", "1")], [[1]])}}):
            reports = [change(r) for r in made.short()]
            page = page_of(*reports)
            self.assertEqual(page.wrong, [])
            for report in reports:
                self.assertIn(f"e-{report['experiment']}", page.ids)
            self.assertGreaterEqual(len([t for _, t in page.all("p") if t.startswith("No picture:")]), 16)

    def test_numbers_of_any_size(self):
        """Every second report with one pair of them, or in the exhaustive run each with all."""
        sizes = ((0, -1.0), (5e-324, 1.7e308), (-1.7e308, 1.7e308), (10 ** 400, 0.0), ({"code": "0x0", "value": -5e-324}, 1))
        for turn in range(len(sizes) if EXHAUSTIVE else 1):
            reports = []
            for i, source in enumerate(made.short()[::1 if EXHAUSTIVE else 2]):
                one, other = sizes[(i + turn) % len(sizes)]
                reports.append(made.without_numbers(source, one))
                for table in reports[-1]["results"].values():
                    table["rows"][::2] = [[other if c == one else c for c in row] for row in table["rows"][::2]]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertEqual(page_of(*reports).wrong, [])

    def test_more_than_can_be_drawn(self):
        rows = [[f"format {i % 30}", f"rounding {i % 17}", "separate", 2.0 ** (i % 9), i / 4000] for i in range(4000)]
        text = text_of(page_of(made.swamping_with(rows)))
        self.assertIn("The first 12 of 17 values of rounding", text)
        self.assertIn("the first 8 of 30 values of format", text)
        self.assertIn("with the same place left out", text)

    def test_the_rows_that_are_drawn(self):
        """The description's points are those of the table, only in the preferred form."""
        rows = [["fp16", "nearest-even", form, 2.0 ** k, share] for form, share in (("fused", 0.25), ("separate", 0.75)) for k in (1, 3, 11)] + [["fp16", "nearest-even", "separate", 4.0, "NaN"]]
        page = page_of(made.swamping_with(rows))
        self.assertEqual([text for a, text in page.all("desc")][0], "Line chart of share of the way against w / (lr·g). nearest-even: 0.75 at 2 to 2048.")
        self.assertIn("form separate. 1 value not drawn: NaN.", text_of(page))

    def test_places_of_points(self):
        """Equal ratios have equal distances on the logarithmic axis, equal differences on the linear one."""
        rows = [["fp16", "nearest-even", "separate", along, share] for along, share in ((2.0, 0.0), (8.0, 0.5), (32.0, 1.0), (64.0, 0.75))]
        line = next(a["d"] for a, _ in page_of(made.swamping_with(rows)).all("path") if "stroke:var(--s0)" in (a.get("style") or "") and (a.get("d") or "").count("L") == 3)
        x, y = zip(*(map(float, pair) for pair in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", line)))
        self.assertTrue(abs((x[1] - x[0]) - (x[2] - x[1])) < 0.05 and abs((x[2] - x[1]) - 2 * (x[3] - x[2])) < 0.05 and x[1] > x[0], x)
        self.assertTrue(abs((y[0] - y[1]) - (y[1] - y[2])) < 0.05 and abs((y[3] - y[2]) - (y[0] - y[2]) / 4) < 0.05 and y[0] > y[1], y)

    def test_differences_from_a_reference(self):
        """The mean over seeds of the differences of the same seed, and their ends."""
        rows = [[policy, "mlp", seed, step, loss] for policy, losses in (("fp32", (2.0, 1.0)), ("pure-bf16", (2.5, 1.75))) for seed in (1, 2) for step, loss in ((1, losses[0] * seed), (9, losses[1]))]
        rows += [["mxfp4", "mlp", 1, 1, 2.125], ["mxfp4", "mlp", 1, 9, "NaN"], ["mxfp4", "mlp", 3, 9, 1.0]]
        columns = [("policy", ""), ("network", ""), ("seed", ""), ("step", "step"), ("test_loss", "nat")]
        plot = next(p for p in PLOTS["training"] if isinstance(p, Plot) and p.table == "curves")
        drawn = chart(plot, {"curves": made.table(columns, rows)})
        found = {s.name: [(p.along, p.value, p.low, p.high) for p in s.points] for s in drawn.panels[0].series}
        self.assertEqual(found, {"pure-bf16": [(1.0, 0.75, 0.5, 1.0), (9.0, 0.75, 0.75, 0.75)], "mxfp4": [(1.0, 0.125, 0.125, 0.125)]})
        with self.assertRaisesRegex(NoPicture, "policy fp32"):
            chart(plot, {"curves": made.table(columns, [r for r in rows if r[0] != "fp32"])})

    def test_guides_are_drawn_once(self):
        rows = [["fp16", "nearest-even", order, n, 2.0**-10, n / 2048, n**0.5 / 2048] for order in ("sequential", "blocked") for n in (16, 4096)]
        columns = [(name, "") for name in ("accumulator", "rounding", "order", "terms", "mean_error", "n_u", "sqrt_n_u")]
        plot = next(p for p in PLOTS["accumulation"] if isinstance(p, Plot) and p.guides)
        (panel,) = chart(plot, {"sums": made.table(columns, rows)}).panels
        self.assertEqual([(name, [(p.along, p.value) for p in points]) for name, points in panel.guides],
                         [("n u", [(16.0, 16 / 2048), (4096.0, 2.0)]), ("sqrt n u", [(16.0, 4 / 2048), (4096.0, 64 / 2048)])])

    def test_a_guide_says_what_its_unit_is(self):
        columns = [(name, "") for name in ("accumulator", "rounding", "order", "terms", "mean_error", "n_u", "sqrt_n_u")]
        for u, said in ((2.0**-11, ["n u, u = 2⁻¹¹: unit roundoff"]), (0.0003, ["n u"])):
            rows = [["fp16", "nearest-even", "sequential", n, n / 8192, (n - 1) * u, 0.001] for n in (16, 256, 4096)]
            page = page_of(made.report("accumulation", {"sums": made.table(columns, rows)}))
            self.assertEqual([text for _, text in page.all("text") if text.startswith("n u")], said)

    def test_an_axis_that_is_linear_near_zero(self):
        axis = extent([-0.01, 0.0, 0.0005, 0.1], "symlog", linear_to=0.001)
        self.assertEqual([axis.place(v) for v in (-0.01, 0.0, 0.0005, 0.001)], [-2.0, 0.0, 0.5, 1.0])
        self.assertAlmostEqual(axis.place(0.1), 3.0)

    def test_an_axis_within_one_power_has_ticks(self):
        for scale in ("log", "log2"):
            for values in ([300, 400], [300], [1500, 3000], [0.021, 0.0213], [1e-300], [1.7e308], [5e-324]):
                axis = extent(values, scale)
                ticks = axis._ticks(7)
                self.assertGreaterEqual(len(ticks), 2 if 1e-290 < values[0] < 1e300 else 0, (scale, values))
                self.assertEqual(len(ticks), len({text for _, text in ticks}))
                for at, text in ticks:
                    self.assertTrue(axis.low <= at <= axis.high, (scale, values, text))
        self.assertEqual([text for _, text in extent([300, 400], "log2")._ticks(7)], ["300", "350", "400"])

    def test_ticks_are_told_apart(self):
        self.assertEqual(_names([0.5, 1.0]), {0.5: "0.5", 1.0: "1"})
        self.assertEqual(_names([1.0, 1.00000002, 1.00000004]), {1.0: "1", 1.00000002: "1.00000002", 1.00000004: "1.00000004"})

    def test_panels_that_are_numbers_say_of_what(self):
        rows = [["mlp", "fp32", name, kept, lr, -0.5] for name in ("fp16", "bf16") for kept in ("plain", "master") for lr in (0.001, 1e-5)]
        page = page_of(made.report("training", {"learning_rates": made.table([(name, "") for name in ("network", "rest", "format", "weights", "lr", "to_fp32")], rows)}))
        self.assertEqual([text.split(" SVG")[0].strip() for a, text in page.all("p") if a.get("class") == "panel-title"], ["learning rate 0.001", "learning rate 1e-5"])

    def test_lines_that_are_run_over_are_wider_and_paler(self):
        """A line that a later one has the values of, over half of it or more, stays visible beside it."""
        def width(shares):
            rows = [["fp16", rounding, "separate", 2.0 ** (i + 1), share] for rounding, course in zip(("nearest-even", "toward-zero"), shares) for i, share in enumerate(course)]
            styles = [a["style"] for a, _ in page_of(made.swamping_with(rows)).all("path") if "stroke:var(--s0)" in (a.get("style") or "") and (a.get("d") or "").count("L") + (a.get("d") or "").count("H") > 1]
            return float(re.search(r"stroke-width:([\d.]+)", styles[-1])[1]), "stroke-opacity:0.4" in styles[-1]  # before it is that of the legend
        self.assertEqual(width(((0.1, 0.2, 0.4, 0.3), (0.1, 0.2, 0.4, 0.9))), (4.2, True))
        self.assertEqual(width(((0.1, 0.2, 0.4, 0.3), (0.1, 0.7, 0.4, 0.9))), (1.6, False))

    def test_what_is_missing_is_named(self):
        """Chosen series that a report lacks, and whose cells are empty, and why."""
        columns = [(name, "") for name in ("accumulator", "rounding", "order", "terms", "mean_error", "n_u", "sqrt_n_u")]
        rows = [["e4m3", "nearest-even", order, n, None if order == "pairwise" and n > 16 else 0.5, 1.0, 1.0] for order in ("sequential", "pairwise") for n in (16, 64, 256)]
        text = text_of(page_of(made.report("accumulation", {"sums": made.table(columns, rows)})))
        self.assertIn("2 cells without a number left out (pairwise): every run overflowed.", text)
        curves = made.table([(name, "") for name in ("policy", "network", "seed", "step", "test_loss")], [[policy, "mlp", 1, 1, 0.5] for policy in ("fp32", "O2", "mxfp4")])
        self.assertIn("Not in this report: policy O1, pure-bf16, strict-bf16, bf16-sr, fp8-hybrid; the axis of values is linear up to ±0.001", text_of(page_of(made.report("training", {"curves": curves}))))
        messages = made.table([(name, "") for name in ("algorithm", "ranks", "round", "from", "to")], [["tree", 2, 1, 1, 0]])
        self.assertIn("Not in this report: algorithm ring, node-tree, one-shot.", text_of(page_of(made.report("collectives", {"messages": messages}))))

    def test_lists_of_names_are_those_of_tables(self):
        """A name that no experiment has would be missing from every picture."""
        names = {cell for r in made.golden() for t in r["results"].values() for row in t["rows"] for cell in row if isinstance(cell, str)}
        policies = {p["name"] for p in json.loads((made.ROOT / "training" / "policies.json").read_text(encoding="utf-8"))}
        for wanted in (SHOWN, BLOCKS, *(getattr(plot, "only", ()) for plots in PLOTS.values() for plot in plots)):
            self.assertLessEqual(set(wanted), names | policies)

    def test_a_weight_step_by_step(self):
        """Why a format's lines end before those of others; the band of the mean; reports without one."""
        rows = [[name, method, step, 1 + step / 64, low, high] for name, steps in (("fp16", 8), ("e5m2", 5))
                for method, low, high in (("exact", None, None), ("stochastic", 0.875, 1.25)) for step in range(steps + 1)]
        columns = [(name, "") for name in ("format", "method", "step", "weight", "low", "high")]
        page = page_of(made.report("swamping", {"course": made.table(columns, rows)}))
        self.assertIn("At step 5 e5m2 ends: one more step would take the exact weight beyond 1.5.", text_of(page))
        self.assertEqual(sum("one more step" in text for _, text in page.all("text")), 1)
        bands = [a for a, _ in page.all("use") if "fill-opacity:0.18" in (a.get("style") or "")]
        self.assertEqual(len(bands), 2)
        older = page_of(made.report("swamping", {"course": made.table(columns[:4], [row[:4] for row in rows])}))
        self.assertIn("Line chart of weight against step.", " ".join(text for _, text in older.all("desc")))

    def test_tokens_and_their_first_clash(self):
        rows = [[name, token, float(token // step * step)] for name, step in (("bf16", 2), ("fp32", 1)) for token in range(256, 264)]
        page = page_of(made.report("position_ids", {"ids": made.table([("format", ""), ("token", ""), ("id", "")], rows)}))
        words = [text for _, text in page.all("desc")]
        self.assertIn("First clash: tokens 256 and 257 share the id 256.", words[0])
        self.assertIn("No two tokens share an id.", words[1])
        said = [text for _, text in page.all("text")]
        self.assertIn("tokens 256 and 257", said)
        self.assertIn("ideal: every token has its own id", text_of(page))

    def test_a_block_beside_its_outlier(self):
        """The outlier is an arrow with both its numbers; the axis is that of all others; a border where a block ends."""
        rows = [["t", name, i, -17550.7 if i == 0 else (-1) ** i * (1 + i / 32), -17550.7 if i == 0 else 0.0 if i < 16 else 1.0] for name in ("nvfp4", "int8") for i in range(32)]
        granularity = made.table([("tensor", ""), ("format", ""), ("scale_for", "")], [["t", "nvfp4", "1x16"], ["t", "int8", "row"]])
        report = made.report("scaling", {"block": made.table([(name, "") for name in ("tensor", "format", "index", "value", "stored")], rows), "granularity": granularity})
        page = page_of(report)
        words = [text for _, text in page.all("desc")]
        self.assertEqual(words[0], "32 values before and after int8, one scale for the row: 15 became 0. At 0 the outlier −17,550 became −17,550.")
        self.assertIn("one scale for 16 values", words[1])
        said = [text for _, text in page.all("text")]
        self.assertEqual(said.count("−17,550 → −17,550"), 2)
        self.assertNotIn("-15,000", said)
        self.assertIn("In int8 15 of 32 values fell to 0.", text_of(page))
        borders = [svg for svg in re.findall(r"<svg.*?</svg>", render([Source("r", report)]), re.DOTALL) if "stroke-dasharray:5" in svg and "role=" in svg]
        self.assertEqual(len(borders), 1)
        self.assertIn("nvfp4", borders[0])
        self.assertIn("Not in this report: format mxfp4, e4m3-tensor, fp8-1x128, mxfp8e4m3.", text_of(page))

    def test_number_lines_tell_subnormal_numbers(self):
        limits = made.table([(name, "") for name in ("format", "min_subnormal", "min_normal", "max_finite")], [["e4m3", 0.125, 0.5, 2.0]])
        lines = made.table([("format", ""), ("place", ""), ("value", "1")], [["e4m3", i, v] for i, v in enumerate((0.0, 0.125, 0.25, 0.375, 0.5, 1.0, 2.0))])
        page = page_of(made.report("underflow", {"number_line": lines, "limits": limits}))
        words = [text for _, text in page.all("desc")]
        self.assertIn("e4m3 has 6, 3 of them subnormal, densest near 0.", words[0])
        self.assertIn("subnormal below 0.5. 0 stands apart.", words[1])
        self.assertIn("subnormal number", [text.strip() for a, text in page.all("li")])
        self.assertIn("0 is no power of two: it stands beyond the break.", text_of(page))

    def test_gradients_have_shares_and_the_best_scale(self):
        tables = {"histogram": made.table([("source", ""), ("binade", ""), ("values", "")], [["normal", -20, 30], ["normal", -19, 70]]),
                  "limits": made.table([(name, "") for name in ("format", "min_subnormal", "min_normal", "max_finite", "largest_zero")], [["fp16", 2.0 ** -24, 2.0 ** -14, 65504.0, 2.0 ** -25]]),
                  "best_scale": made.table([("source", ""), ("format", ""), ("best_k", ""), ("zero_unscaled", ""), ("zero_at_best", "")], [["normal", "fp16", 17, 0.0306, 0.0]])}
        said = [text for _, text in page_of(made.report("underflow", tables)).all("text")]
        for word in ("3.1 % lost → 0 %", "0 in fp16", "best loss scale for fp16: 2¹⁷", "share of gradients in a binade", "0 %", "20 %", "60 %"):
            self.assertIn(word, said)

    def test_scenes_say_what_they_draw(self):
        """In words, from the tables; what cannot be drawn says so."""
        messages = made.table([(name, "") for name in ("algorithm", "ranks", "round", "from", "to")], [["tree", 4, 1, 1, 0], ["tree", 4, 1, 3, 2], ["tree", 4, 2, 2, 0]])
        sources = made.table([(name, "") for name in ("formats", "accumulator", "source", "error", "share")],
                             [["int8", "exact", "input", 0.5, 1.25], ["int8", "exact", "output", 0.25, -0.25], ["int8", "exact", "total", 0.5, 1.0]])
        page = page_of(made.report("collectives", {"messages": messages}), made.report("attribution", {"sources": sources}))
        words = [text for _, text in page.all("desc")]
        self.assertIn("3 messages among 4 ranks in 2 rounds; rank 0 has the sum.", words)
        self.assertIn("Waterfall of the error of a product with int8, summed in exact: input 0.62, output -0.12; in all 0.5.", words)
        said = [text for _, text in page.all("text")]
        for number in ("0.62", "−0.12", "0.5"):  # on every bar
            self.assertIn(number, said)
        small = made.table([(name, "") for name in ("formats", "accumulator", "source", "error", "share")],
                           [[name, "exact", source, error, 1.0] for name, error in (("int8", 0.5), ("fp16", 0.005)) for source in ("input", "total")])
        page = page_of(made.report("attribution", {"sources": small}))
        self.assertEqual([text for _, text in page.all("text")].count("magnified"), 1)
        self.assertIn("Magnified: a waterfall that is short on the common scale, with a scale of its own.", text_of(page))
        units = made.table([(name, "") for name in ("formats", "accumulator", "source", "error", "share")],
                           [["e4m3", accumulator, source, error, share] for accumulator, unit in (("fp32", 1e-7), ("exact", 1e-8), ("hopper", 0.25), ("other", 0.125))
                            for source, error, share in (("input", 0.5, 1.125), ("unit", unit, -0.125), ("total", 0.5, 1.0))])
        page = page_of(made.report("attribution", {"sources": units}))
        self.assertEqual([text.split(" SVG")[0].strip() for a, text in page.all("p") if a.get("class") == "panel-title"][:2], ["e4m3", "e4m3 on hopper"])
        self.assertIn("by itself, unit has an error of 0.25.", text_of(page))
        odd = page_of(made.report("collectives", {"messages": made.table([("algorithm", "")], [["tree"]])}))
        self.assertIn("No picture: the table messages cannot be drawn.", text_of(odd))

    def test_names_in_pictures_are_names(self):
        """Texts that look like formulas or markup stay text."""
        names = ["$x^2$", "$\\frac{", "<b>&amp;", "ü∞", "_a_", "n" * 200]
        rows = [[name, name, 0.5] for name in names]
        page = page_of(made.report("swamping", {"repairs": made.table([("format", ""), ("method", ""), ("arrived", "1")], rows)}))
        labels = [text for _, text in page.all("text")]
        for name in names[:-1]:
            self.assertIn(name, labels)
        self.assertEqual(page.wrong, [])

    def test_rows_of_another_width(self):
        odd = made.report("swamping", {"ratios": {"title": "t", "columns": [{"name": "format", "unit": "", "description": "d"}, {"name": "arrived", "unit": "1", "description": "d"}],
                                                  "rows": [["fp16"], ["bf16", 1, 2, 3], [None, None]]}})
        self.assertEqual(page_of(odd).wrong, [])

    def test_long_tables_say_how_many_rows_there_are(self):
        long = made.report("own", {"long": made.table([("x", "1")], [[i] for i in range(300)])})
        page = page_of(long, rows=20)
        self.assertIn("(the first 20 of 300 rows)", text_of(page))
        self.assertEqual(sum(text == "299" for _, text in page.all("td")), 0)
        self.assertEqual(sum(text == "299" for _, text in page_of(long, rows=0).all("td")), 1)

    def test_a_page_is_the_same_each_time(self):
        """Pages of one report, or in the exhaustive run of four."""
        code = ("import sys; sys.path[:0] = [{!r}]; import made_reports as m; from halfulp_page import Source, render; "
                f"reports = m.golden()[{'0:4' if EXHAUSTIVE else '1:2'}]; "
                "sys.stdout.buffer.write(render([Source('a', r) for r in reports]).encode())")
        pages = [subprocess.run([sys.executable, "-c", code.format(str(Path(__file__).parent))], capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")]
        self.assertGreater(len(pages[0]), 10000)
        self.assertEqual(pages[0], pages[1])


class Checkpoints(unittest.TestCase):
    """Heat maps, exponents over ranges, bits against SQNR."""

    HEAT = next(p for p in PLOTS["checkpoint"] if isinstance(p, Plot) and p.table == "layers")

    @classmethod
    def pictures(cls, *reports):
        """Each picture's elements by its table."""
        return cls.pictures_on(render([Source(f"r{i}", r) for i, r in enumerate(reports)]))

    @staticmethod
    def pictures_on(page):
        svgs = re.findall(r'<svg[^>]*role="img".*?</svg>', page, re.DOTALL)
        names = {str(i): plot.table if isinstance(plot, Plot) else plot.tables[0] for i, plot in enumerate(PLOTS["checkpoint"])}
        return {names[re.search(r"p-checkpoint-(\d)-0", svg)[1]]: svg for svg in svgs}

    @staticmethod
    def texts(svg):
        return re.findall(r"<text[^>]*>([^<]*)</text>", svg)

    @staticmethod
    def cells(svg):
        """Colours of cells, column by column."""
        root = ElementTree.fromstring(svg)
        parents = {child: parent for parent in root.iter() for child in parent}
        found = []
        for element in (e for e in root.iter() if e.tag in ("path", "use")):
            style = element.get("style") or parents[element].get("style") or ""
            if fill := re.search(r"fill:(#[0-9a-f]{6}|var\(--s2\))", style):
                found.append(fill[1])
        return found

    def test_every_picture_is_drawn_whatever_the_size(self):
        some = dict(list(made.QUALITY.items())[:1])
        for report in (made.checkpoint(), made.checkpoint(1), made.checkpoint(1, some), made.checkpoint(3, exact=tuple(made.QUALITY)), made.checkpoint(300), made.checkpoint(2, {"n" * 200: (8.0, 30.0), "m" * 200: (8.0, 130.0)}), made.checkpoint(45, {f"format{i}": (1.0 + i / 8, 6.0 * i) for i in range(30)})):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                files = render_folder([Source("r", report)])
            drawn = self.pictures_on(files["checkpoint.html"])
            self.assertEqual(sorted(drawn), ["exponents", "formats", "layers", "roles"])
            texts = [text for svg in drawn.values() for text in self.texts(svg)]
            self.assertTrue(all(len(text) <= 26 for text in texts if "nnn" in text or "mmm" in text))
            self.assertEqual(sum(name.endswith(".svg") for name in files), 4)
            for name, file in files.items():
                if name.endswith(".svg"):
                    self.assertLessEqual(int(ElementTree.fromstring(file).get("height")), 720, name)
        text = text_of(page_of(made.checkpoint(0)))
        for table in ("formats", "exponents", "layers", "roles"):
            self.assertIn(f"No picture: the table {table} is empty.", text)

    def test_a_cell_has_the_colour_and_the_number_of_its_row(self):
        report = made.checkpoint(3, exact=("nvfp4",))
        svg = self.pictures(report)["layers"]
        expected = [heat((sqnr - place / 16) / 60)[0] if name != "nvfp4" else VARIABLES[EXACT] for name, (_, sqnr) in made.QUALITY.items() for place in range(3)]
        self.assertEqual(self.cells(svg), expected)
        said = self.texts(svg)
        for word in ("fp16", "e4m3", "nvfp4", "int4", "model.layers.0", "model.layers.2", "73.5", "31.4", "18.9"):
            self.assertIn(word, said)
        self.assertEqual(said.count("exact"), 3)
        words = re.search(r"<desc[^>]*>([^<]*)", svg)[1]
        self.assertEqual(words, "Heat map of SQNR (dB): 3 layers in 4 formats. fp16: least 73.38 at model.layers.2, most 73.5 at model.layers.0. e4m3: least 31.38 at model.layers.2, most 31.5 at model.layers.0. "
                         "nvfp4: exact in 3 of 3 rows. int4: least 18.88 at model.layers.2, most 19 at model.layers.0.")
        legend = next(text for a, text in page_of(report).all("ul") if a.get("class") == "legend" and "exact: nothing lost" in text)
        for word in ("SQNR (dB):", "30", "60 or more"):
            self.assertIn(word, legend)
        self.assertNotIn("0 or less", legend)
        self.assertNotIn("exact: nothing lost", text_of(page_of(made.checkpoint(3))))

    def test_what_an_empty_cell_means(self):
        """Exact only where nothing was lost; text is no number, and infinity is one."""
        columns = [(name, "") for name in ("layer", "format", "relative_error", "sqnr", "not_finite")]
        rows = [["a", "fp16", 0.0, None, 0], ["b", "fp16", None, None, 0], ["c", "fp16", 0.0, None, 3], ["d", "fp16", 0.5, "NaN", 0], ["e", "fp16", 0.0, "Infinity", 0], ["f", "fp16", 9.0, -19.0, 0], ["g", "fp16", 9.0, "-Infinity", 0]]
        drawn = chart(self.HEAT, {"layers": made.table(columns, rows)})
        self.assertEqual([(drawn.rows[int(p.along)], p.value) for p in drawn.panels[0].series[0].points], [("a", float("inf")), ("e", float("inf")), ("f", -19.0), ("g", float("-inf"))])
        page = page_of(made.report("checkpoint", {"layers": made.table(columns, rows)}))
        for word in ("2 cells without a number left out (fp16): nothing in it stays finite", "1 value not drawn: NaN", "1 value not drawn: no place on this axis", "0 or less"):
            self.assertIn(word, text_of(page))
        self.assertIn("−19.0", [text for _, text in page.all("text")])
        without = made.table([(name, "") for name in ("layer", "format", "sqnr")], [["a", "fp16", None]])
        self.assertIn("exact in 1 of 1 row", self.pictures(made.report("checkpoint", {"layers": without}))["layers"])

    def test_of_many_layers_the_worst_are_drawn_in_the_order_of_their_numbers(self):
        drawn = chart(self.HEAT, made.checkpoint(300)["results"])
        self.assertEqual(drawn.rows, [f"model.layers.{i}" for i in range(240, 300)])
        picture = self.pictures(made.checkpoint(300))["layers"]
        self.assertNotIn("73.5", self.texts(picture))
        self.assertLess(float(re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', picture)[1]), 9 * 72)
        self.assertIn("The 60 of 300 layers that lose most; the table has all.", text_of(page_of(made.checkpoint(300))))
        self.assertEqual(chart(self.HEAT, made.checkpoint(12)["results"]).rows, [f"model.layers.{i}" for i in range(12)])
        self.assertEqual(in_order(["head", "b.10.x", "b.9.x", "a.1", "b.9.y", "a.01"]), ["head", "b.9.x", "b.10.x", "a.01", "a.1", "b.9.y"])

    def test_names_of_rows_are_short_and_tell_rows_apart(self):
        for stem, shown in (("a_model.with_long_names.layers.", "…layers.{}"), ("somewhat_long_model_name_", "…odel_name_{}")):
            report = made.checkpoint(12)
            for row in report["results"]["layers"]["rows"]:
                row[0] = row[0].replace("model.layers.", stem)
            said = self.texts(self.pictures(report)["layers"])
            self.assertTrue(all(any(text.endswith(shown.format(i)[1:]) and text.startswith("…") and len(text) <= 18 for text in said) for i in range(12)), said)

    def test_exponents_add_up_to_shares_of_a_role(self):
        plot = next(p for p in PLOTS["checkpoint"] if isinstance(p, Plot) and p.table == "exponents")
        rows = [["a", "mlp", None, 2], ["a", "mlp", -3, 1], ["b", "mlp", -3, 4], ["b", "mlp", 5, 1], ["c", "norm", 0, 7], ["c", "norm", 1, "NaN"], ["d", "none", 0, 0]]
        columns = [(name, "") for name in ("tensor", "role", "exponent", "elements")]
        drawn = chart(plot, {"exponents": made.table(columns, rows)})
        self.assertEqual({s.name: [(p.along, p.value) for p in s.points] for s in drawn.panels[0].series}, {"mlp": [(-3.0, 0.625), (5.0, 0.125)], "norm": [(0.0, 1.0)]})
        self.assertEqual(drawn.notes, ["zeros are not drawn: at most 25 % (mlp)"])
        with self.assertRaisesRegex(NoPicture, "nothing but zeros"):
            chart(plot, {"exponents": made.table(columns, rows[:1])})
        picture = self.pictures(made.report("checkpoint", {"exponents": made.table(columns, rows)}))["exponents"]
        for name in ("fp16", "bf16", "e4m3", "e5m2"):
            self.assertIn(name, self.texts(picture))
        self.assertIn("fp16 from -14 to 15, subnormal from -24", picture)

    def test_ranges_are_those_of_the_formats(self):
        limits = next(r for r in made.golden() if r["experiment"] == "underflow")["results"]["limits"]
        place = {column["name"]: i for i, column in enumerate(limits["columns"])}
        known = {(row[0], *(math.floor(math.log2(row[place[name]]["value"])) for name in ("min_subnormal", "min_normal", "max_finite"))) for row in limits["rows"]}
        self.assertLessEqual(set(RANGES), known)

    def test_dots_of_formats_have_names_that_never_meet(self):
        formats = {"a8": (8.0, 31.0), "b8": (8.0, 30.0), "c8": (8.01, 32.0), "e16": (16.0, 150.0), "f32": (32.0, 50.0)}
        report = made.checkpoint(3, formats, exact=("f32",))
        picture = self.pictures(report)["formats"]
        places = {match[2]: float(match[1]) for match in re.finditer(r'<text[^>]*transform="(?:translate|rotate)\((?:-90 )?([\d.]+) [^>]*-90[^>]*>([^<]*)</text>', picture)}
        self.assertEqual(sorted(places), ["a8", "b8", "c8", "e16, 150 dB", "f32, exact"])
        ordered = sorted(places.values())
        self.assertTrue(all(b - a > 9 for a, b in zip(ordered, ordered[1:])), places)
        self.assertIn("a8, 8 bits: 31 dB, worst tensor 30.88 dB (model.layers.2.weight)", picture)
        self.assertIn("f32, 32 bits: exact", picture)
        text = text_of(page_of(report))
        self.assertIn("Above the break: exact, or more than 100 dB; dots of about the same bits stand beside each other.", text)
        self.assertIn("its worst tensor", text)
        alone = text_of(page_of(made.checkpoint(1)))
        self.assertNotIn("its worst tensor", alone)
        report["results"]["formats"]["rows"][0][4] = "NaN"
        self.assertIn("Without a number: a8", text_of(page_of(report)))

    def test_places_that_are_spread(self):
        self.assertEqual(spread([0.0, 50.0, 50.0, 52.0, 100.0], 10, 5, 100), [5, 50 + 2 / 3 - 10, 50 + 2 / 3, 50 + 2 / 3 + 10, 100])
        self.assertEqual(spread([], 10, 0, 100), [])

    def test_what_was_chosen_written_and_compared(self):
        """Each of the three kinds has its two pictures, with a mark for every number."""
        of = [("tensor", ""), ("format", ""), ("sqnr", "dB")]
        rows = [["a.weight", "nvfp4", 20.5], ["b.weight", "int4", 13.25], ["norm", "stored", None]]
        for kind, results, words in (
                ("checkpoint_choice", {"totals": made.table([("format", ""), ("sqnr", "dB")], [["mix", 18.5], ["int4", 13.0], ["stored", None]]), "choice": made.table(of, rows)}, ("mix", "it stays as it is stored")),
                ("checkpoint_quantized", {"formats": made.table([("format", ""), ("bytes_before", "byte"), ("bytes", "byte")], [["nvfp4", 64, 18], ["all", 100, 54]]), "tensors": made.table(of, rows[:2])}, ("bytes before", "b.weight")),
                ("checkpoint_difference", {"causes": made.table([("because", ""), ("tensors", "tensor")], [[None, 1], ["the same bytes", 2]]), "differences": made.table([of[0], of[2]], [[r[0], r[2]] for r in rows])}, ("the same bytes", "nothing differs"))):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                text = render([Source("r", made.report(kind, results))])
            self.assertEqual(len(re.findall(r'<svg[^>]*role="img"', text)), 2, kind)
            for word in words:
                self.assertIn(word, text)

    def test_two_checkpoints_side_by_side(self):
        page = page_of(made.checkpoint(4), made.checkpoint(3, exact=("fp16",)))
        self.assertEqual(page.wrong, [])
        self.assertEqual(len([a for a, _ in page.all("svg") if (a.get("aria-labelledby") or "").startswith("p-checkpoint-")]), 8)
        self.assertEqual(len(page.ids), len(set(page.ids)))


class SavedPictures(unittest.TestCase):
    """A picture's file stands alone: it has what the page has around it."""

    ROWS = [["fp16", rounding, "separate", 2.0 ** k, share] for rounding, share in (("nearest-even", 0.25), ("toward-zero", 0.75)) for k in (1, 3, 11)]

    @staticmethod
    def texts(root):
        return ["".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text")]

    @staticmethod
    @functools.cache
    def golden_folder():
        """Of every third report, or in the exhaustive run of all."""
        return render_folder([Source(f"{r['experiment']}.json", r) for r in made.golden()[::1 if EXHAUSTIVE else 3]])

    def test_a_file_has_title_panel_legend_axes_notes_size_and_paper(self):
        report = made.swamping_with(self.ROWS)
        report["config"]["steps"] = 1000
        files = render_folder([Source("r.json", report)])
        (name,) = (name for name in files if name.endswith(".svg"))
        root = ElementTree.fromstring(files[name])
        self.assertEqual((root.get("width"), root.get("viewBox").split()[2], root.get("role")), ("960", "960", "img"))
        self.assertEqual(root.get("height"), "540")  # it is a slide
        texts = self.texts(root)
        for word in ("fp16", "rounding:", "nearest-even", "toward-zero", "w / (lr·g)", "share of the way"):
            self.assertIn(word, texts)
        said = " ".join(texts)
        self.assertIn("How much of an update has arrived after 1000 steps", said)
        self.assertIn("halfulp, experiment swamping, table ratios.", said)
        paper = root.find("{http://www.w3.org/2000/svg}rect")
        self.assertEqual((paper.get("width"), paper.get("height"), paper.get("fill")), ("960", root.get("height"), "#ffffff"))
        self.assertRegex("".join(root.find("{http://www.w3.org/2000/svg}desc").itertext()), "nearest-even: 0.25")
        self.assertNotIn("var(", files[name])
        self.assertNotIn("currentColor", files[name])

    def test_all_letters_of_every_file_are_on_it(self):
        """By the width of a letter, no line is longer than the file."""
        for name, file in self.golden_folder().items():
            if name.endswith(".svg"):
                root = ElementTree.fromstring(file)
                for text in root.findall("{http://www.w3.org/2000/svg}text"):
                    self.assertLess(float(text.get("x")) + 0.57 * float(text.get("font-size")) * len("".join(text.itertext())), 960, name)
                    self.assertLess(float(text.get("y")), int(root.get("height")), name)

    def test_many_rows_stand_in_two_columns_and_stay_on_a_slide(self):
        rows = [[f"format {i % 2}", f"method {i // 2}", i / 80] for i in range(80)]
        files = render_folder([Source("r.json", made.report("swamping", {"repairs": made.table([("format", ""), ("method", ""), ("arrived", "1")], rows)}))])
        root = ElementTree.fromstring(files["figures/swamping-repairs.svg"])
        self.assertLessEqual(int(root.get("height")), 720)
        texts = self.texts(root)
        self.assertEqual(texts.count("share of the way after all steps"), 2)
        self.assertLessEqual({f"method {i}" for i in range(40)}, set(texts))

    def test_files_have_names_of_their_own(self):
        """What they show, once each, whatever the names in the report are."""
        rows = [[name, "nearest-even", "separate", along, 0.5] for name in ("fp16", "FP16", "a/../b", "ü") for along in (2.0, 4.0)]
        names = sorted(name for name in render_folder([Source("r.json", made.swamping_with(rows))]) if name.endswith(".svg"))
        self.assertEqual(names, sorted(f"figures/swamping-ratios{end}.svg" for end in ("", "-a-..-b", "-fp16", "-fp16-2")))
        for name in self.golden_folder():
            self.assertNotRegex(name, r"-\d+-\d+-\d+\.svg$|-2\.svg$")

    def test_notes_and_legend_are_those_of_the_panel(self):
        rows = [["fp16", "nearest-even", "separate", 2.0, 0.5], ["fp16", "nearest-even", "separate", 4.0, 0.5], ["bf16", "toward-zero", "separate", 2.0, 0.5], ["bf16", "toward-zero", "separate", 4.0, "NaN"]]
        report = made.swamping_with(rows)
        files = render_folder([Source("r.json", report)])
        said = {name: " ".join(self.texts(ElementTree.fromstring(files[f"figures/swamping-ratios-{name}.svg"]))) for name in ("fp16", "bf16")}
        self.assertNotIn("NaN", said["fp16"])
        self.assertIn("1 value not drawn: NaN.", said["bf16"])
        self.assertNotIn("toward-zero", said["fp16"])
        self.assertIn("toward-zero", said["bf16"])
        below = [text for a, text in page_of(report).all("p") if a.get("class") == "notes"]
        self.assertEqual(below, ["1 value not drawn: NaN."])

    def test_a_pale_line_is_pale_in_the_legend(self):
        rows = [["fp16", rounding, "separate", along, 0.5 * along] for rounding in ("nearest-even", "toward-zero") for along in (1.0, 2.0, 4.0)]
        file = render_folder([Source("r.json", made.swamping_with(rows))])["figures/swamping-ratios-fp16.svg"]
        self.assertEqual(file.count("stroke-opacity:0.4"), 2)
        self.assertIn("A pale wide line: another runs over it", " ".join(self.texts(ElementTree.fromstring(file))))

    def test_a_long_legend_takes_more_lines(self):
        rows = [["fp16", f"a rounding with a long name {i}", "separate", 2.0, 0.5] for i in range(12)]
        files = render_folder([Source("r.json", made.swamping_with(rows))])
        root = ElementTree.fromstring(next(file for name, file in files.items() if name.endswith(".svg")))
        lines = {t.get("y") for t in root.findall("{http://www.w3.org/2000/svg}text") if "".join(t.itertext()).startswith("a rounding")}
        self.assertGreaterEqual(len(lines), 4)

    def test_one_page_holds_the_same_files(self):
        report = made.swamping_with(self.ROWS)
        (link,) = (a for a, _ in page_of(report).all("a") if a.get("class") == "save")
        kind, _, data = link["href"].partition(",")
        self.assertEqual((kind, link["download"]), ("data:image/svg+xml;charset=utf-8", "swamping-ratios-fp16.svg"))
        self.assertEqual(urllib.parse.unquote(data), render_folder([Source("r.json", report)])["figures/swamping-ratios-fp16.svg"].strip())


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


SLEEPING = """
import runpy, signal, time
from halfulp_page import page, processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has commands in the background ignore it
def drawn(*_): time.sleep(3600)
page.section = drawn
processes.processors = lambda: 3
runpy.run_module("halfulp_page", run_name="__main__")
"""


def process_or_nothing(answer):
    """Dies in a process of shared_out()."""
    if multiprocessing.parent_process():
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def living(group):
    """Processes of a group, without those that only wait for their parents to notice their end."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
            found += [file.parent.name] if int(of) == group and state != "Z" else []
    return found


class Processes(unittest.TestCase):
    """Several processes draw."""

    def test_they_draw_the_page_that_one_draws(self):
        sources = [Source(f"{report['experiment']}.json", report) for report in made.golden() if report["experiment"] in ("finetune", "grad_scaler", "quantization")]
        self.assertEqual(len(sources), 3)
        self.assertEqual(render_folder(sources, jobs=2), render_folder(sources))

    def test_answers_are_in_order_and_errors_arrive(self):
        self.assertEqual(shared_out(pow, [(i, 2) for i in range(20)], 3), [i * i for i in range(20)])
        self.assertNotIn(os.getpid(), shared_out(os.getpid, [(), ()], 2))
        self.assertEqual(shared_out(os.getpid, [(), ()], 1), [os.getpid()] * 2)
        other = multiprocessing.Process(target=time.sleep, args=(3600,))
        other.start()
        with self.assertRaises(ZeroDivisionError):
            shared_out(pow, [(2, 1), (0, -1), (2, 3)], 2)
        self.assertEqual(multiprocessing.active_children(), [other])
        other.kill()
        other.join()

    def test_without_others_this_process_works_alone(self):
        self.assertEqual(shared_out(process_or_nothing, [(i,) for i in range(4)], 2), [0, 1, 2, 3])
        for name in ("os.fork", "multiprocessing.synchronize.SemLock.__init__"):
            with unittest.mock.patch(name, side_effect=OSError("none left")):
                self.assertEqual(shared_out(os.getpid, [(), ()], 2), [os.getpid()] * 2, name)
        self.assertEqual(multiprocessing.active_children(), [])

    @unittest.skipUnless(os.path.exists("/proc/self/task"), "processes are counted as Linux tells them")
    def test_none_outlives_the_one_that_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            for i, report in enumerate(made.golden()[:4]):
                Path(folder, f"{i}.json").write_text(json.dumps(report), encoding="utf-8")
            words = [sys.executable, "-c", SLEEPING, folder, "--out", f"{folder}/index.html"]
            for number, status in ((signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
                with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(made.ROOT / "python")}, stderr=subprocess.PIPE, start_new_session=True) as program, contextlib.ExitStack() as at_the_end:
                    at_the_end.callback(lambda group=program.pid: [os.kill(int(process), signal.SIGKILL) for process in living(group)])
                    while program.poll() is None and len(living(program.pid)) < 4:
                        time.sleep(0.05)
                    self.assertIsNone(program.poll())
                    (os.killpg if number == signal.SIGINT else os.kill)(program.pid, number)
                    self.assertEqual(program.communicate(timeout=60)[1], b"")
                    self.assertEqual(program.returncode, status)
                    until = time.monotonic() + 60
                    while living(program.pid) and time.monotonic() < until:
                        time.sleep(0.05)
                    self.assertEqual(living(program.pid), [])
            self.assertEqual([f for f in os.listdir(folder) if not f.endswith(".json")], [])


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
