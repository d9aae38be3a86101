"""Importing rnncost loads no torch; so pytest and the command line start at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reporting.reports import packed_layer, report


@pytest.mark.parametrize(
    "statement",
    [
        "import rnncost",
        "import rnncost.testing",
        "import rnncost.pytest_plugin, rnncost.plugin.markers",
        "import rnncost.plugin.run, rnncost.plugin.meter",
        "import rnncost.counting, rnncost.reporting, rnncost.reporting.renderers.text",
        "import rnncost; rnncost.OpCount, rnncost.CostReport, rnncost.merge, dir(rnncost)",
        "import rnncost; rnncost.compare, rnncost.Comparison",
        "from rnncost.cli.main import main; main(['--help'], standalone_mode=False)",
        "from rnncost.cli.main import main; main(['report', '--help'], standalone_mode=False)",
        "from rnncost.cli.main import main; main(['lengths', '9,8,6'], standalone_mode=False)",
        "from rnncost.cli.main import main; main(['schema'], standalone_mode=False)",
        "from rnncost.cli.main import main; import sys; f = 'tests/data/report-v1.json'\n"
        "for form in ('text', 'markdown', 'json', 'html'):\n"
        "    main(['compare', f, f, '--fail-on', 'none', '--format', form], standalone_mode=False)",
        "from rnncost.cli.main import main\ntry: main(['show', 'none.json'])\nexcept SystemExit: pass",
    ],
)
def test_no_torch_is_loaded(statement: str) -> None:
    code = f"{statement}\nimport sys\nassert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("form", "loaded"), [("text", {"rich"}), ("json", set()), ("csv", set()), ("markdown", set())])
def test_show_loads_only_what_a_form_needs(tmp_path: Path, form: str, loaded: set[str]) -> None:
    saved = tmp_path / "report.json"
    report(packed_layer("rnn", [5, 2])).save(saved)
    code = (
        "import sys\nfrom rnncost.cli.main import main\n"
        f"main(['show', {str(saved)!r}, '--format', {form!r}], standalone_mode=False)\n"
        f"assert {{'torch', 'numpy', 'jinja2', 'rich'}} & set(sys.modules) == {loaded!r}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_public_names_are_there() -> None:
    import rnncost

    for name in rnncost.__all__:
        assert getattr(rnncost, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rnncost.nothing  # noqa: B018
