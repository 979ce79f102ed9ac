"""The page: its numbers are the program's, its states are addresses, mouse and keyboard do the same, nothing is requested.

HALFULP: the program; HALFULP_WEB: the folder of halfulp.html; HALFULP_VENV, HALFULP_PACKAGE: where Python and the package are.
"""
from __future__ import annotations

import gzip
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from page import FILE, SCENES, PageTest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


RAISED = str.maketrans("\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "-0123456789")


def number(text: str) -> float:
    """A number as the page writes it: \u22120.5, 2 or 10 with raised digits."""
    text = re.sub(r"(?<=\d)([\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)", lambda found: "^" + found[1].translate(RAISED), text.replace("\u2212", "-"))
    sign, power = re.fullmatch(r"(-?)(?:2\^(-?\d+))?(?:.*)", text).groups()
    if power is not None:
        return (-1 if sign else 1) * 2.0 ** int(power)
    return float(text.replace(" \u00d7 10^", "e"))


def value(word) -> float:
    word = word["value"] if isinstance(word, dict) else word
    return float(word)


class Numbers(PageTest):
    """Each scene says what the command that it shows says."""

    def near(self, text: str, expected: float, what: str, digits: float = 1e-5):
        found = number(text)
        if math.isnan(expected):
            self.assertTrue(math.isnan(found), what)
        else:
            self.assertTrue(found == expected or abs(found - expected) <= digits * abs(expected), f"{what}: {text} and {expected}")

    def run_shown(self, *more: str) -> subprocess.CompletedProcess:
        """Runs the command that the page shows, in a folder of its own."""
        command = self.text("command").split(" && halfulp show")[0]
        self.assertIn("halfulp ", command)
        command = re.sub(r"(^|\| |\n)halfulp ", lambda found: f"{found[1]}{os.environ['HALFULP']} ", command)
        command = command.replace("python3 -c", f"{sys.executable} -c")
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(["bash", "-e", "-c", " ".join((command, *more))], cwd=folder, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr + command)
            made = Path(folder) / "rounded.npy"
            self.rounded = np.load(made) if made.exists() else None
        return run

    def report(self) -> dict:
        tables = json.loads(self.run_shown("--backend emulated --quiet --out -").stdout)["results"]
        return {name: [dict(zip((column["name"] for column in table["columns"]), row)) for row in table["rows"]] for name, table in tables.items()}

    def test_bits(self):
        for x, first, second in (("0.1", "fp16", "e4m3"), ("-1/3", "bf16", "e5m2"), ("2^-25", "fp16", "e2m1"), ("65520", "fp16", "e3m2"), ("nan", "e4m3", "fp32"), ("1e400", "fp64", "p3109k8p4"), ("2^-149", "fp32", "e6m9finite")):
            for mode in ("nearest-even", "stochastic"):
                self.go(f"#bits?x={x}&format={first}&beside={second}&round={mode}&seed=7")
                for i, explained in enumerate(json.loads(self.run_shown("--json").stdout)):
                    rows = self.table(i)
                    self.assertEqual(len(rows), len(explained["modes"]), x)
                    for row, expected in zip(rows, explained["modes"]):
                        self.assertEqual(row[0], expected["rounding"])
                        self.near(row[1], value(expected), f"{x} {row}")
                        self.assertIn(expected["reason"], row[3])
                    card = self.browser.find_elements(By.CLASS_NAME, "card")[i]
                    self.assertIn(explained["result"]["code"], card.text)
                    if len(explained["exact_decimal"]) <= 60:
                        self.assertEqual(card.find_element(By.CLASS_NAME, "value").text, explained["exact_decimal"])
                    bits = "".join(bit.text for bit in card.find_elements(By.CLASS_NAME, "bit"))
                    self.assertEqual(int(bits, 2), int(explained["result"]["code"], 16))

    def test_line(self):
        for x, format_name, zoom in (("0.3", "e4m3", 11), ("-7", "e2m1", 0), ("1/3", "fp16", 30), ("500", "e4m3", 1), ("2^-17", "e5m2", 32)):
            self.go(f"#line?x={x}&format={format_name}&zoom={zoom}&seed=3")
            explained = json.loads(self.run_shown("--json").stdout)
            self.assertEqual(len(self.table()), len(explained["modes"]))
            for row, expected in zip(self.table(), explained["modes"]):
                self.assertEqual(row[0], expected["rounding"])
                self.near(row[1], value(expected), f"{x} {row}")
            tossed = next(text for text in self.browser.execute_script("return [...document.querySelectorAll('.arrow text')].map((text) => text.textContent)") if text.startswith("stochastic"))
            self.near(tossed.split(": ")[1], value(explained["result"]), tossed)

    def test_cliff(self):
        for median, scale in ((-18, 0), (-30, 12), (0, 20)):
            self.go(f"#cliff?median={median}&scale={scale}&formats=fp16,bf16,e4m3,e5m2")
            # The sweep begins without a scale: its rows of this one.
            expected = {row["format"]: row for row in self.report()["scale_sweep"] if row["k"] == scale}
            for row in self.table():
                for column, name in ((1, "gradient_zero"), (2, "gradient_subnormal"), (4, "gradient_overflow")):
                    self.assertEqual(int(row[column]) / 4096, expected[row[0]][name], f"{row} {name}")

    def test_a_file_dropped_on_cliff(self):
        self.go("#cliff")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "g.npy"
            gradients = (np.random.default_rng(3).standard_normal(30000) * 2.0 ** -20).astype(np.float32)
            np.save(path, gradients)
            expected = subprocess.run([os.environ["HALFULP"], "run", "underflow", "--set", f"input={path}", "--set", "formats=fp16,e4m3", "--set", "roundings=nearest-even", "--set", "scale_to=0", "--backend", "emulated", "--quiet", "--out", "-"], check=True, capture_output=True, text=True).stdout
            self.enter("formats", "fp16,e4m3")
            self.browser.find_element(By.ID, "file").send_keys(str(path))
            self.wait(lambda: "source=file" in self.state())
            table = json.loads(expected)["results"]["fates"]
            names = [column["name"] for column in table["columns"]]
            fates = [dict(zip(names, row)) for row in table["rows"]]
            for row in self.table():
                fate = next(fate for fate in fates if fate["format"] == row[0] and fate["quantity"] == "gradient")
                self.assertEqual([int(cell) / gradients.size for cell in row[1:5]], [fate[name] for name in ("zero", "subnormal", "normal", "overflow")])
            before = self.state()
            for name, content in (("notes.txt", b"no tensor at all"), ("cut.npy", path.read_bytes()[:500]), ("lies.safetensors", (10**15).to_bytes(8, "little") + b"{}" * 10), ("empty.npy", b"")):
                odd = Path(folder) / name
                odd.write_bytes(content)
                self.browser.find_element(By.ID, "file").send_keys(str(odd))
                self.wait(lambda: name in self.text("file-error"))
                self.assertIn("accepted", self.text("file-error"))
                self.assertEqual(self.state(), before)

    def test_staircase(self):
        for format_name, lr, steps in (("bf16", "0.001", 200), ("fp16", "0.0001", 300), ("e4m3", "0.1", 50)):
            self.go(f"#staircase?format={format_name}&lr={lr}&g=1&steps={steps}&seed=5")
            rows = {row["rounding"]: row for row in self.report()["ratios"] if row["form"] == "separate"}
            shown = {row[0]: row[1] for row in self.table()}
            self.near(shown["nearest even"], value(rows["nearest-even"]["after_all"]), format_name)
            self.near(shown["stochastic"], value(rows["stochastic"]["after_all"]), format_name)

    def test_sums(self):
        for format_name, terms, order, n in (("bf16", "uniform", "kahan", 4096), ("fp16", "ones", "sequential", 70000), ("e4m3", "normal", "pairwise", 1000), ("bf16", "normal", "blocked", 3000), ("fp16", "uniform", "promoted", 2048)):
            self.go(f"#sums?format={format_name}&terms={terms}&order={order}&n={n}&k=9&seed=2")
            row = self.report()["sums"][0]
            self.assertFalse(row["overflowed"], format_name)
            titles = [option.get_attribute("value") for option in self.browser.find_elements(By.CSS_SELECTOR, "#field-order option")]
            self.near(self.table()[titles.index(order)][2], row["mean_error"], f"{format_name} {terms} {order}", 6e-3)
        self.go("#sums?format=bf16&terms=ones&n=70000&k=300")
        self.assertIn("256 + 1 \u2192 256", self.browser.find_element(By.CLASS_NAME, "big").text)

    def test_positions(self):
        for format_name, k in (("bf16", 11), ("fp16", 13), ("e4m3", 8), ("fp32", 10)):
            self.go(f"#positions?format={format_name}&tokens={k}&token=200")
            row = self.report()["collisions"][0]
            self.assertEqual([cells[1] for cells in self.table()], [str(row["distinct"]), str(row["first_clash"] or "none"), str(row["largest_group"]), str(row["overflowed"])])

    def test_scores_by_a_second_way(self):
        self.go("#positions?format=bf16&tokens=11&token=1001")
        theta = 10000.0 ** (-np.arange(64) / 64)
        drawn = self.browser.find_elements(By.CSS_SELECTOR, ".s1 circle")[:65]
        low, high = (float(drawn[i].get_attribute("cy")) for i in (0, -1))
        ids = [1000.0, 936.0]  # bf16 of 1001, and of 937: a tie that goes to the even 936
        expected = [np.cos(theta * (ids[0] - other)).mean() for other in (ids[0], ids[1])]
        ticks = {number(g.text): float(g.find_element(By.TAG_NAME, "line").get_attribute("y1")) for g in self.browser.find_elements(By.CSS_SELECTOR, "#stage svg:first-of-type .tick") if g.find_element(By.TAG_NAME, "line").get_attribute("y1") == g.find_element(By.TAG_NAME, "line").get_attribute("y2")}
        (a, at_a), (b, at_b) = min(ticks.items()), max(ticks.items())
        for pixel, score in zip((low, high), expected):
            self.assertAlmostEqual(a + (pixel - at_a) / (at_b - at_a) * (b - a), score, delta=0.01)

    def test_product(self):
        for unit in ("volta.mma.fp16.fp32", "ampere.mma.fp16.fp32", "hopper.mma.fp16.fp32", "blackwell.tcgen05.fp16.fp32", "cdna2.mfma.fp16.fp32", "cdna3.mfma.fp16.fp32", "hopper.wgmma.e4m3.fp32"):
            for a, b, c in (("1,2^-12,2^-12,-1", "1,2^-12,2^-13,1", "0"), ("1,3,-0.3", "7,2^-9,0.1", "2^-20"), ("1,1,1,1,1,1,1,1,1,2^-3", "4,2,2,2,2,2,2,2,2,-2^-3", "-10000.5")):
                self.go(f"#product?unit={unit}&a={a}&b={b}&c={c}")
                d = float(self.run_shown().stdout)
                units = {text: i for i, text in enumerate(("volta", "ampere", "hopper.mma", "blackwell", "cdna2", "cdna3"))}
                row = next((i for name, i in units.items() if unit.startswith(name)), None)
                if row is not None:
                    self.near(self.table()[row][1], d, f"{unit} {a}", 1e-8)
                sums = [p.text for p in self.browser.find_elements(By.CLASS_NAME, "sum")]
                if "cdna2" not in unit:
                    self.assertTrue(sums, unit)
                    last = number(re.search(r": ([^:]*)\.$", sums[-1])[1])
                    self.assertEqual(last, d, "the last step ends in the result")
                    # What is left of the terms, digit by digit, adds up to the sum: as many digits as the architecture keeps.
                    digits = next(bits for name, bits in (("volta", 23), ("ampere", 24), ("hopper.mma", 25), ("hopper.wgmma", 13), ("blackwell", 25), ("cdna3", 24)) if unit.startswith(name))
                    first = self.browser.execute_script("return [...document.querySelectorAll('#stage table')[1].tBodies[0].rows].map((row) => row.querySelector('code').firstChild.textContent)")
                    exponent = number(re.search(r"aligned to (2[^,]*),", self.browser.find_elements(By.CSS_SELECTOR, "#stage caption")[1].text)[1])
                    kept = 0
                    for text in first:
                        whole, fraction = text[1:].split(".")
                        self.assertEqual(len(fraction), digits, unit)
                        kept += (-1 if text[0] == "\u2212" else 1) * int(whole + fraction, 2)
                    self.near(re.search(r"sum is ([^;]*);", sums[0])[1], kept * 2.0 ** -digits * exponent, f"{unit} {a}", 1e-8)

    def test_stall(self):
        for unit, n in (("hopper.wgmma.e4m3.fp32", 15), ("hopper.mma.fp16.fp32", 12)):
            self.go(f"#product?look=stall&long={unit}&a=1&b=1&n={n}")
            self.near(self.table()[1][1], float(self.run_shown().stdout), unit)
            self.near(self.table()[2][1], 2.0 ** n, unit)

    def test_block(self):
        for outlier, place, seed in ((3, 5, 1), (10, 31, 2)):
            for i, format_name in enumerate(("mxfp8e4m3", "mxfp6e2m3", "mxfp4", "nvfp4", "int8", "e4m3-tensor")):
                self.go(f"#block?outlier={outlier}&place={place}&format={format_name}&seed={seed}")
                self.run_shown()
                row = self.table()[i]
                numbers = np.array(json.loads(re.search(r"float32\((\[.*\])\)", self.text("command"))[1]), np.float32)
                rounded = np.ravel(self.rounded)
                others = np.arange(32) != place
                self.near(row[2], float(rounded[place]), format_name)
                self.assertEqual(int(row[4]), int(((rounded == 0) & (numbers != 0) & others).sum()), format_name)
                error = np.sqrt(np.mean((rounded[others] - numbers[others]) ** 2) / np.mean(numbers[others] ** 2))
                self.assertEqual(row[3], f"{100 * error:.1f} %")

    def test_the_python_says_the_same(self):
        python, package = Path(os.environ["HALFULP_VENV"]) / "bin" / "python", Path(os.environ["HALFULP_PACKAGE"])
        if not python.exists() or not list(package.glob("halfulp/_core*.so")):
            self.skipTest("no Python package")
        for address, seen in (("#bits?x=1/3&format=bf16&beside=e5m2", lambda: [number(e.text) for e in self.browser.find_elements(By.CLASS_NAME, "value")]),
                              ("#line?x=0.3&seed=2", lambda: [number(text.split(": ")[1]) for text in self.browser.execute_script("return [...document.querySelectorAll('.arrow text')].map((text) => text.textContent)") if text.startswith("stochastic")]),
                              ("#staircase?steps=200", lambda: [number(self.table()[i][1]) for i in (0, 2)]),
                              ("#sums?terms=ones&n=700&order=sequential&format=bf16", lambda: [number(self.table()[0][1])]), ("#sums?terms=ones&n=5000&order=kahan&format=fp16", lambda: [number(self.table()[3][1])]),
                              ("#sums?terms=ones&n=5000&order=promoted&format=bf16", lambda: [number(self.table()[4][1])]), ("#sums?terms=ones&n=5000&order=blocked&format=bf16", lambda: [number(self.table()[1][1])]),
                              ("#sums?terms=ones&n=5000&order=pairwise&format=bf16", lambda: [number(self.table()[2][1])]),
                              ("#positions?token=1001", lambda: [float(self.table()[0][1]), 1000.0]), ("#product?unit=ampere.mma.fp16.fp32", lambda: [number(self.table()[1][1])]),
                              ("#product?look=stall&n=15", lambda: [number(self.table()[1][1])]), ("#block?place=0", lambda: [number(self.table()[2][2])])):
            self.go(address)
            run = subprocess.run([python, "-c", self.text("python")], env={**os.environ, "PYTHONPATH": str(package)}, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr + self.text("python"))
            printed = [float(word) for word in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", run.stdout)]
            expected = seen()
            found = printed[:1] if address.startswith("#block") else printed[-len(expected):]
            for one, other in zip(found, expected):
                self.assertTrue(math.isclose(one, other, rel_tol=1e-5), f"{address}: {run.stdout} and {expected}")


class Use(PageTest):
    def test_every_state_is_an_address(self):
        changed = {"bits": {"x": "-1/3", "format": "e5m2", "beside": "bf16", "round": "to-odd"}, "line": {"x": "2^-8", "format": "e3m2", "zoom": "3", "seed": "9"},
                   "cliff": {"source": "training", "scale": "10", "formats": "e4m3,fp16"}, "staircase": {"format": "fp16", "lr": "1e-4", "steps": "20"}, "sums": {"terms": "ones", "order": "pairwise", "n": "70000", "k": "2049"},
                   "positions": {"format": "e4m3", "tokens": "9", "token": "17"}, "product": {"a": "1, 2", "b": "3 4", "c": "-5", "unit": "volta.mma.fp16.fp32"}, "block": {"outlier": "9", "place": "30", "format": "nvfp4"}}
        for scene in SCENES:
            self.go(f"#{scene}")
            start = self.text("stage")
            for name, text in changed[scene].items():
                self.enter(name, text)
            self.assertEqual([self.text(f"field-{name}-error") for name in changed[scene]], [""] * len(changed[scene]), scene)
            state, seen, command = self.state(), self.text("stage"), self.text("command")
            self.assertNotEqual(seen, start, scene)
            self.go(state)
            self.assertEqual((self.state(), self.text("stage"), self.text("command")), (state, seen, command))
            for view in ("&view=lecture&theme=dark", "&theme=light"):
                self.go(state + view)
                self.assertEqual(self.state(), state + view)
            self.assertNotIn("view=page", self.state(), "what is usual is not written")

    def test_what_no_address_may_say(self):
        for address, words in (("#nowhere", "accepted: bits, line"), ("#bits?colour=red", "colour=red"), ("#bits?x=%E0%A4", "no text"), ("#bits?round=up", "accepted: nearest-even"), ("#line?zoom=99", "accepted: a whole number from 0 to 60"),
                               ("#bits?theme=pink", "theme is system or light or dark"), ("#bits?format=fp17", "did you mean fp16"), ("#sums?n=1e9", "How many"), ("#product?unit=b300", "accepted"), ("#bits?x=1&x=2", "x twice"), ("#cliff?source=file", "no file is here yet")):
            self.go(address)
            self.assertIn(words, self.text("refused"), address)
        self.go("#bits?x=5")
        good = self.text("stage")
        self.browser.execute_script("location.hash = '#bits?y=5'")
        self.wait(lambda: "y=5" in self.text("refused"))
        self.assertEqual(self.text("stage"), good)
        self.assertTrue(self.state().startswith("#bits?x=5&"))

    def test_nonsense_in_a_field_keeps_the_last_good_state(self):
        nonsense = {"bits": {"x": "1,5", "format": "fp17", "seed": "-1"}, "line": {"x": "inf", "format": ""}, "cliff": {"formats": "fp16,,e4"}, "staircase": {"lr": "fast", "g": "-1"}, "sums": {"n": "0", "k": "1.5"},
                    "positions": {"format": "e8m0", "token": "many"}, "product": {"a": "1, x", "b": "1", "c": "1 2"}, "block": {"seed": "1e99"}}
        for scene, fields in nonsense.items():
            self.go(f"#{scene}")
            before, seen = self.state(), self.text("stage")
            for name, text in fields.items():
                self.enter(name, text)
                error = self.text(f"field-{name}-error")
                self.assertTrue(error and "\n" not in error, f"{scene} {name}")
                self.assertEqual((self.state(), self.text("stage")), (before, seen))
                self.assertEqual(self.browser.find_element(By.ID, f"field-{name}").get_attribute("aria-invalid"), "true")
                self.browser.execute_script("window.dispatchEvent(new HashChangeEvent('hashchange'))")
        self.assertEqual([entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"], [])

    def test_by_mouse(self):
        self.go("#bits?x=1&format=fp16")
        self.browser.find_elements(By.CSS_SELECTOR, ".card")[0].find_elements(By.CLASS_NAME, "bit")[15].click()
        self.assertIn("x=1.0009765625&", self.state())
        self.browser.find_elements(By.CSS_SELECTOR, ".card")[1].find_elements(By.CLASS_NAME, "bit")[0].click()
        self.assertIn("x=-1&", self.state(), "e4m3 has rounded it to 1 before its sign changed")
        for scene, field in (("line", "x"), ("block", "place")):
            self.go(f"#{scene}")
            before = self.state()
            picture = self.browser.find_element(By.CSS_SELECTOR, "[data-drag]")
            ActionChains(self.browser).move_to_element(picture).click_and_hold().move_by_offset(150, 0).release().perform()
            self.assertNotEqual(self.state(), before)
            self.assertNotIn(f"{field}=NaN", self.state())
        self.go("#staircase?steps=990")
        self.browser.find_element(By.ID, "run").click()
        self.wait(lambda: "steps=1000" in self.state())
        self.wait(lambda: self.text("run") == "Run")
        self.go("#positions")
        self.browser.find_elements(By.CLASS_NAME, "token")[3].click()
        self.assertIn("token=988", self.state())
        self.browser.find_element(By.ID, "to-sums").click()
        self.wait(lambda: self.state().startswith("#sums?"))

    def test_by_keyboard_alone(self):
        for scene in SCENES:
            self.go(f"#{scene}")
            reached, body = set(), self.browser.find_element(By.TAG_NAME, "body")
            for _ in range(120):
                ActionChains(self.browser).send_keys(Keys.TAB).perform()
                focused = self.browser.switch_to.active_element
                reached.add(focused.get_attribute("id"))
                if focused == body:
                    break
            fields = {element.get_attribute("id") for element in self.browser.find_elements(By.CSS_SELECTOR, "#controls [id^=field-]:is(input, select)") if element.is_displayed()}
            self.assertTrue(fields, scene)
            self.assertEqual(fields - reached, set(), scene)
            slider = next((element for element in self.browser.find_elements(By.CSS_SELECTOR, "#controls input[type=range]") if element.is_displayed()), None)
            if slider:
                before, said = self.state(), slider.get_attribute("aria-valuetext")
                slider.send_keys(Keys.ARROW_RIGHT)
                self.wait(lambda: self.state() != before)
                self.assertNotEqual(slider.get_attribute("aria-valuetext"), said)
        self.go("#bits?x=1")
        bit = self.browser.find_elements(By.CLASS_NAME, "bit")[15]
        key = bit.get_attribute("data-key")
        bit.send_keys(Keys.SPACE)
        self.assertIn("x=1.0009765625&", self.state())
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("data-key"), key, "the focus stays at the bit")
        number_field = self.browser.find_element(By.ID, "field-x")
        number_field.send_keys(Keys.CONTROL, "a")
        number_field.send_keys("0b0011110000000000")
        self.assertIn("x=0b0011110000000000&", self.state())

    def test_lecture(self):
        self.go("#bits")
        self.browser.find_element(By.ID, "lecture").send_keys(Keys.ENTER)
        self.assertIn("view=lecture", self.state())
        for scene in SCENES[1:]:
            ActionChains(self.browser).send_keys(Keys.PAGE_DOWN).perform()
            self.wait(lambda: self.state().startswith(f"#{scene}?"))
            self.assertIn("view=lecture", self.state())
        ActionChains(self.browser).send_keys(Keys.ARROW_LEFT).perform()
        self.wait(lambda: self.state().startswith("#product?"))
        ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        self.assertNotIn("view=", self.state())

    def test_narrow_screens(self):
        for scene in SCENES:
            self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True})
            self.go(f"#{scene}")
            self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), 360, scene)
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def test_one_small_file_without_requests_or_storage(self):
        self.assertLessEqual(len(gzip.compress(FILE.read_bytes(), 9)), 150_000)
        self.browser.get_log("performance")
        for scene in SCENES:
            self.go(f"#{scene}")
        asked = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        addresses = [message["params"]["request"]["url"] for message in asked if message["method"] == "Network.requestWillBeSent"]
        self.assertTrue(addresses)
        self.assertEqual([address for address in addresses if not address.startswith((FILE.as_uri(), "blob:", "data:", "about:"))], [])
        self.assertEqual(self.browser.execute_script("return [document.cookie, localStorage.length, sessionStorage.length]"), ["", 0, 0])
        self.assertEqual([entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"], [])


if __name__ == "__main__":
    unittest.main()
