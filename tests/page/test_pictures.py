"""Pictures of checkpoints, and pictures as files of their own."""
from __future__ import annotations

import functools
import itertools
import math
import os
import re
import unittest
import urllib.parse
import warnings
from xml.etree import ElementTree

import made_reports as made
from parsed_page import page_of, text_of

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from halfulp_page import Source, render, render_folder
from halfulp_page.plots import PLOTS
from halfulp_page.plots.draw import panels
from halfulp_page.plots.networks import RANGES
from halfulp_page.plots.saved import standalone
from halfulp_page.plots.scenes_of_networks import spread
from halfulp_page.plots.select import NoPicture, chart, in_order
from halfulp_page.plots.spec import Plot
from halfulp_page.plots.style import EXACT, VARIABLES, heat

EXHAUSTIVE = "HALFULP_EXHAUSTIVE" in os.environ


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


class Names(unittest.TestCase):
    """What rows and panels are called."""

    @staticmethod
    def plot(experiment, table, **values):
        plots = (p for p in PLOTS[experiment] if isinstance(p, Plot) and p.table == table)
        return next(p for p in plots if all(getattr(p, name) == value for name, value in values.items()))

    def test_a_row_without_a_layer_is_all_layers(self):
        columns = [(name, "") for name in ("layer", "part", "format", "error")]
        table = made.table(columns, [["", "weights", "bf16", 0.5], ["fc1", "activation", "bf16", 0.25]])
        self.assertEqual(chart(self.plot("recommendation", "sensitivity"), {"sensitivity": table}).rows, ["all layers", "fc1"])

    def test_what_has_no_panel_stands_in_all_and_numbers_have_units(self):
        columns = [("bits", "bit"), ("granularity", ""), ("fp32", "1"), ("ptq", "1"), ("qat", "1")]
        plot = self.plot("quantization", "qat")
        rows = [[32, None, 0.8, 0.8, 0.9], [8, "tensor", 0.8, 0.7, 0.8], [1, "channel", 0.8, 0.6, 0.7]]
        drawn = chart(plot, {"qat": made.table(columns, rows)})
        self.assertEqual([panel.title for panel in drawn.panels], ["tensor", "channel"])
        self.assertEqual(drawn.rows, ["32 bits", "8 bits", "1 bit"])
        self.assertEqual([[p.along for p in panel.series[2].points] for panel in drawn.panels], [[0, 1], [0, 2]])
        alone = chart(plot, {"qat": made.table(columns, rows[:1])})  # with nothing to compare
        self.assertEqual([panel.title for panel in alone.panels], ["none"])

    def test_chosen_series_say_of_how_many(self):
        columns = [("network", ""), ("policy", ""), ("seed", ""), ("step", ""), ("test_loss", "nat")]
        rows = [["mlp", policy, 1, step, 0.5 + i / 8] for i, policy in enumerate(["fp32", "O1", "mxfp4", "mxfp8", "nvfp4"]) for step in (1, 2)]
        plot = self.plot("training", "curves")
        note = "2 of 4 values of policy beside fp32; the table has all"
        self.assertIn(note, chart(plot, {"curves": made.table(columns, rows)}).notes)
        self.assertNotIn("the table has all", " ".join(chart(plot, {"curves": made.table(columns, rows[:6])}).notes))

    def test_a_panel_that_shows_nothing_is_left_out_and_named(self):
        plot = self.plot("memory", "training_devices")
        columns = [("model", ""), ("policy", ""), ("device_gb", "GB"), ("devices", "rank")]
        small, large = ([[model, "O2", gb, devices] for gb, devices in ((40, a), (80, 1))] for model, a in (("small", 1), ("large", 2)))
        drawn = chart(plot, {"training_devices": made.table(columns, small + large)})
        self.assertEqual([panel.title for panel in drawn.panels], ["large"])
        self.assertIn("not drawn: small (1 everywhere)", drawn.notes)
        self.assertEqual((drawn.along_label, drawn.value_label), ("GB of a device", "devices (a rank each)"))
        self.assertLessEqual({"1", "2"}, set(Checkpoints.texts(panels(drawn, "p", "of", [drawn])[0].svg)))
        with self.assertRaisesRegex(NoPicture, r"not drawn: small \(1 everywhere\)"):
            chart(plot, {"training_devices": made.table(columns, small)})

    def test_the_reference_stands_beside_every_group(self):
        columns = [("variant", ""), ("group", ""), ("network", ""), ("accuracy", "1")]
        rows = [["fp32", "", "mlp", 0.8], ["fp16-eps-1e-4", "eps", "mlp", 0.7], ["decay", "decay", "mlp", 0.75]]
        drawn = chart(self.plot("optimizer", "summary", file="accuracy"), {"summary": made.table(columns, rows)})
        self.assertEqual([panel.title for panel in drawn.panels], ["eps", "decay"])
        self.assertEqual([[p.value for p in panel.series[0].points] for panel in drawn.panels], [[0.8, 0.7], [0.8, 0.75]])


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

    @staticmethod
    def span(text):
        """Where a line of a file's own begins and ends, by the outlines of its letters."""
        font = FontProperties(family="DejaVu Sans", weight=text.get("font-weight", "normal"))
        outlines = TextPath((float(text.get("x")), 0), "".join(text.itertext()), size=float(text.get("font-size")), prop=font)
        return outlines.get_extents().x0, outlines.get_extents().x1

    def test_all_letters_of_every_file_are_on_it_and_no_lines_meet(self):
        lines = 0
        for name, file in self.golden_folder().items():
            if name.endswith(".svg"):
                root = ElementTree.fromstring(file)
                rows = {}
                for text in root.findall("{http://www.w3.org/2000/svg}text"):
                    rows.setdefault(text.get("y"), []).append(self.span(text))
                    self.assertLess(float(text.get("y")), int(root.get("height")), name)
                for row in rows.values():
                    self.assertLessEqual(max(end for _, end in row), 960 - 24, name)
                    lines += len(row) > 1
                    for (_, end), (begin, _) in itertools.pairwise(sorted(row)):
                        self.assertLess(end + 5, begin, name)
        self.assertGreater(lines, 10)

    def test_ticks_of_large_numbers_are_short(self):
        """Bytes in a unit of their size, other numbers by powers of ten."""
        def ticks(plot, unit, most):
            columns = [("weights", ""), ("weight_bytes", unit), ("cache_bytes", unit), ("model", "")]
            drawn = chart(plot, {"inference": made.table(columns, [["fp32", most, 0, "a"], ["bf16", most // 2, 0, "a"]])})
            (panel,) = panels(drawn, "p", "of", [drawn])
            return Checkpoints.texts(panel.svg)

        plot = next(p for p in PLOTS["memory"] if isinstance(p, Plot) and p.table == "inference")
        self.assertLessEqual({"0", "5 GB", "10 GB", "25 GB"}, set(ticks(plot, "byte", 28_000_000_000)))
        self.assertLessEqual({"0", "200 MB", "400 MB"}, set(ticks(plot, "byte", 497_759_232)))
        self.assertLessEqual({"0", "200", "400"}, set(ticks(plot, "byte", 512)))
        self.assertLessEqual({"0", "5e9", "1e10", "2.5e10"}, set(ticks(plot, "token", 28_000_000_000)))
        self.assertLessEqual({"0", "20,000"}, set(ticks(plot, "token", 98_000)))

    def test_a_title_of_wide_letters_and_the_name_beside_it_stay_apart(self):
        def texts(title):
            svg = standalone(lambda least, most: '<svg viewBox="0 0 9 9"></svg>', title, "mlp", [], "", "")
            return ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}text")

        for title in ("updates that swamp womw mmmw", "ilil " * 8, "mmmm " * 30, "W" * 200):
            *_, last, name = texts(title)
            self.assertTrue(last.get("y") != name.get("y") or self.span(last)[1] + 5 < self.span(name)[0], title)
            self.assertLessEqual(max(self.span(t)[1] for t in texts(title)), 960 - 24, title)
        last, name = texts("測試" * 5)  # which the font lacks: square letters
        self.assertGreater(float(name.get("x")), 24 + 10 * float(last.get("font-size")))

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


if __name__ == "__main__":
    unittest.main()
