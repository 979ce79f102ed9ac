#!/usr/bin/env bash
# make_site.sh SOURCE BUILD OUT [VENV [RAN]]: the documentation as a site, OUT/html, from docs/, the headers, and the
# package of the build tree with what its virtual environment has; the notebooks with their outputs, where that
# environment can run them or the folder RAN has them. Warnings, links that lead nowhere within the site and public names
# without documentation are errors. Links to other sites are not followed. "skipped: REASON" where it cannot be made.
set -euo pipefail
source=$1
build=$2
out=$3
venv=${4:-}
ran=${5:-}
for program in doxygen sphinx-build python3; do
  command -v "$program" >/dev/null || { echo "skipped: no $program; Debian has it in: doxygen python3-sphinx python3-myst-parser python3-breathe furo"; exit 0; }
done
python=$(sed -n '1s/^#! *//p' "$(command -v sphinx-build)") # the Python that Sphinx is installed for
$python -c "import sphinx, myst_parser, breathe, furo" 2>/dev/null ||
  { echo "skipped: Python has no sphinx, myst_parser, breathe or furo; Debian has them in: python3-sphinx python3-myst-parser python3-breathe furo"; exit 0; }
mkdir -p "$out/doxygen"
cd "$source"
{
  cat docs/Doxyfile
  echo "OUTPUT_DIRECTORY = $out/doxygen"
} | doxygen -
export HALFULP_XML=$out/doxygen/xml
if compgen -G "$build/python/halfulp/_core*.so" >/dev/null; then
  HALFULP_PACKAGE=$build/python
  for site in "$venv"/lib/python3*/site-packages; do HALFULP_PACKAGE+=:$site; done
  if PYTHONPATH=$HALFULP_PACKAGE $python -c "import halfulp" 2>/dev/null; then
    export HALFULP_PACKAGE
  else
    unset HALFULP_PACKAGE
    echo "the Python functions are left out: this Python cannot import the package"
  fi
else
  echo "the Python functions are left out: the package was not built"
fi
if [ -n "${HALFULP_PACKAGE:-}" ] && "$venv/bin/python" -c "import nbconvert, nbclient, ipykernel, pandas, matplotlib, latex2mathml" 2>/dev/null; then
  rm -rf "$out/notebooks"
  PYTHONPATH=$build/python "$venv/bin/python" notebooks/publish.py "$out/notebooks/notebooks" ${ran:+"$ran"} >"$out/notebooks.log" 2>&1 || { cat "$out/notebooks.log" && exit 1; }
  export HALFULP_NOTEBOOKS=$out/notebooks
else
  echo "the notebooks are left out: $venv cannot run them"
fi
rm -rf "$out/lecture"
if [ -e build/web/web/halfulp.wasm ]; then
  mkdir -p "$out/lecture"
  python3 web/pack.py build/web/web/halfulp.wasm "$out/lecture/lecture.html" --explanations 'explanation/{page}.html'
  export HALFULP_LECTURE=$out/lecture
else
  echo "the lecture in a browser is left out: ./run web builds it"
fi
PYTHONDONTWRITEBYTECODE=1 $python -m sphinx -q -E -a -W --keep-going -b html -d "$out/doctrees" docs "$out/html"
echo "$out/html/index.html"
