"""The WebAssembly modules in Chromium: every digest is the program's, and refusals have its words.

HALFULP_DIGESTS: the program that prints the digests; HALFULP_WEB: the folder of halfulp.wasm and digests.wasm.
"""
from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from chromium import browser  # noqa: E402

DOOR = Path(__file__).resolve().parents[2] / "web" / "halfulp.js"


def setUpModule():
    if not (Path(os.environ["HALFULP_WEB"]) / "digests.wasm").exists():
        raise unittest.SkipTest("no WebAssembly modules (./run web builds them)")


class Module(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser()
        cls.addClassCleanup(cls.browser.quit)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        page = Path(folder.name) / "page.html"
        module, digests = (base64.b64encode((Path(os.environ["HALFULP_WEB"]) / name).read_bytes()).decode() for name in ("halfulp.wasm", "digests.wasm"))
        door = DOOR.read_text(encoding="utf-8").replace("export ", "")
        page.write_text(f"""<!DOCTYPE html><meta charset="utf-8"><title>module</title><script type="module">{door}
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
window.digests = await load(bytes("{digests}"));
window.halfulp = await load(bytes("{module}"));
</script>""", encoding="utf-8")
        cls.browser.set_script_timeout(600)
        cls.browser.get(page.as_uri())

    def ask(self, program):
        """What a program of JavaScript returns."""
        return self.browser.execute_async_script(f"const done = arguments[arguments.length - 1]; (async () => {{ {program} }})().then(done, (error) => done(String(error)));")

    def test_every_digest_is_the_programs(self):
        expected = subprocess.run([os.environ["HALFULP_DIGESTS"]], check=True, capture_output=True, text=True).stdout.splitlines()
        found = self.ask("return window.digests.digests().map(({name, digest}) => digest() + ' ' + name);")
        self.assertGreater(len(expected), 2000)
        self.assertEqual(len(found), len(expected))
        self.assertEqual([line for line, other in zip(found, expected) if line != other], [])

    def test_numbers_and_refusals(self):
        self.assertEqual(self.ask("return window.halfulp.exact('e4m3', window.halfulp.parse('e4m3', '0.1'));"), "0.1015625")
        self.assertEqual(self.ask("return window.halfulp.exact('fp16', window.halfulp.parse('fp16', '0.1', 'toward-positive'));"), "0.10003662109375")
        self.assertIn("Error: unknown format 'e4m4x'; did you mean e4m3?", self.ask("return window.halfulp.exact('e4m4x', 0n);"))
        for call, words in (("parse('fp16', 'ten')", "Error: 'ten'"), ("parse('fp16', '1', 'up')", "Error: unknown rounding mode 'up'"), ("exact('fp16', 0x10000n)", "Error: word: 65536; accepted: 0 to 65535"),
                            ("parse('fp16', '1', 'stochastic', 1n << 32n)", "Error: random: 4294967296; accepted: 0 to 4294967295"), ("exact('fp16', 1n << 64n)", "TypeError: word: 18446744073709551616; accepted"),
                            ("exact('fp16', 0.5)", "TypeError: word: 0.5"), ("exact('fp16', '5')", "TypeError: word: 5"), ("exact(undefined, 0n)", "TypeError: format: undefined; accepted: text"), ("parse('fp16', 0.1)", "TypeError: number: 0.1; accepted: text")):
            self.assertIn(words, self.ask(f"return window.halfulp.{call};"))
        self.assertEqual(self.ask("return window.halfulp.exact('fp16', 0x3c00);"), "1")
        self.assertEqual(self.ask("return window.halfulp.exact('bf16', 0x3f80n);"), "1", "after errors it goes on")


if __name__ == "__main__":
    unittest.main()
