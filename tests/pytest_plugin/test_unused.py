"""What the plugin costs where nobody asks for it: nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytest_plugin.conftest import QUIET, Run

PLUGIN = ("-p", "rnncost.pytest_plugin")
FOREIGN = ("torch", "numpy", "msgspec", "rich", "click", "altair", "jinja2", "fractions", "decimal", "json")
LISTING = (
    "import sys\n"
    "def pytest_unconfigure(config):\n"
    "    print('LOADED', *sorted(name for name in sys.modules if name.startswith('rnncost')))\n"
    f"    print('FOREIGN', *(name for name in {FOREIGN!r} if name in sys.modules))\n"
)


def loaded(folder: Path, *options: str, plugin: tuple[str, ...] = PLUGIN) -> dict[str, list[str]]:
    (folder / "conftest.py").write_text(LISTING)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", *options],
        cwd=folder,
        # Other plugins import much themselves, so this one is loaded alone.
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {words[0]: words[1:] for words in lines if words and words[0] in ("LOADED", "FOREIGN")}


def test_a_run_without_markers_and_options_loads_one_small_module(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_one(): pass\n")
    found = loaded(tmp_path)
    assert found["LOADED"] == ["rnncost", "rnncost._version", "rnncost.pytest_plugin"]
    assert set(found["FOREIGN"]) <= set(loaded(tmp_path, plugin=())["FOREIGN"])
    assert not {"torch", "numpy", "msgspec", "rich", "click"} & set(found["FOREIGN"])


def test_a_run_that_is_only_compared_loads_no_torch_before_a_test_runs(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.limit_macs(1)\ndef test_one(): pass\n")
    assert "torch" not in loaded(tmp_path, "--collect-only", "--rnncost", "--rnncost-save=main")["FOREIGN"]
    assert "torch" in loaded(tmp_path, "--rnncost")["FOREIGN"]


def test_a_test_without_a_marker_is_not_watched(run: Run) -> None:
    result = run(
        "from torch.nn.modules import module\n"
        "def test_plain(): assert not module._global_forward_hooks\n"
        "@pytest.mark.limit_macs(420)\ndef test_marked():\n    assert module._global_forward_hooks\n    packed()\n"
        "def test_after(): assert not module._global_forward_hooks\n"
    )
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize(
    "end", ["raise KeyError", "pytest.skip('x')", "pytest.exit('x')", "raise SystemExit", "scripted()"]
)
def test_no_hook_is_left_on_any_way_out(run: Run, end: str) -> None:
    # The autouse fixture of this test looks for what is left in the process that both share.
    run(f"@pytest.mark.limit_macs(1)\ndef test_one():\n    packed()\n    {end}\n", "-W", "error", "--rnncost")


def test_the_installed_package_brings_the_plugin(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess(*QUIET, "--trace-config")
    done.stdout.fnmatch_lines(["*rnncost.pytest_plugin*"])
