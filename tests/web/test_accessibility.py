"""axe-core finds nothing on any scene, in both colours, as a page and as a lecture.

HALFULP_WEB: the folder of halfulp.html; HALFULP_VENV: a virtual environment with axe_core_python of PyPI.
"""
from __future__ import annotations

import os
import unittest
from pathlib import Path

from page import SCENES, PageTest

AXE = next(Path(os.environ["HALFULP_VENV"]).glob("lib/python3*/site-packages/axe_core_python/axe.min.js"), None)


@unittest.skipUnless(AXE, "no axe_core_python")
class Accessibility(PageTest):
    def test_axe(self):
        for scene in SCENES:
            for look in ("&theme=light", "&theme=dark", "&view=lecture&theme=light", "&view=lecture&theme=dark"):
                self.go(f"#{scene}?{look[1:]}")
                self.browser.execute_script(AXE.read_text(encoding="utf-8"))
                found = self.browser.execute_async_script("const done = arguments[arguments.length - 1]; axe.run().then((found) => done(found.violations.map((one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + node.failureSummary.slice(0, 200)).join(' | '))));")
                self.assertEqual(found, [], f"{scene}{look}")


if __name__ == "__main__":
    unittest.main()
