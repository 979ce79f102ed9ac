"""Pages of reports without rows, with numbers of any size, with what is missing: none makes the page fail."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

import made_reports as made
from parsed_page import page_of, text_of

from halfulp_page import Source, render
from halfulp_page.plots import PLOTS
from halfulp_page.plots.axes import _names, extent
from halfulp_page.plots.scenes_of_sums import BLOCKS, SHOWN
from halfulp_page.plots.select import NoPicture, chart
from halfulp_page.plots.spec import Plot

EXHAUSTIVE = "HALFULP_EXHAUSTIVE" in os.environ


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


if __name__ == "__main__":
    unittest.main()
