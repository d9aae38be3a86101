"""The markers: limits that are kept or missed, and how a miss looks."""

from __future__ import annotations

import inspect

import pytest

from rnncost.plugin.markers import FUNCTIONS
from rnncost.pytest_plugin import MARKERS
from tests.pytest_plugin.conftest import QUIET, Run


@pytest.mark.parametrize(
    ("marker", "call", "reason"),
    [
        ('limit_macs("0.42k")', "packed()", ""),
        ("limit_macs(419)", "packed()", "420 MACs executed, limit 419"),
        ('min_saved("30%")', "packed()", ""),
        ("min_saved(0.31)", "packed()", "30.0 % of the padded mults saved, limit 31.0 %"),
        ('max_wasted("0%")', "packed()", ""),
        ('max_wasted("30%", infer_lengths=True)', "padded()", ""),
        (
            'max_wasted("29.9%", infer_lengths=True)',
            "padded()",
            "30.0 % of the executed mults wasted on padding, limit 29.9 %",
        ),
        ('max_wasted("5%")', "padded()", "how much was wasted is unknown, limit 5.0 %"),
        ("limit_macs(0)", "pass", "no recurrent layer ran, so there is nothing to hold to the limit 0"),
        ("limit_macs(1000)", "scripted()", "cannot be guaranteed, since recurrent work is uncounted"),
    ],
)
def test_a_limit_fails_a_test_exactly_when_it_is_missed(run: Run, marker: str, call: str, reason: str) -> None:
    result = run(f"@pytest.mark.{marker}\ndef test_one():\n    {call}", "--strict-markers")
    result.assert_outcomes(passed=not reason, failed=bool(reason))
    if reason:
        assert f"rnncost: {reason}" in result.outlines


def test_a_failure_is_the_limit_the_figure_and_the_layers_and_no_traceback(run: Run) -> None:
    result = run(
        """
        class Two(Tagger):
            def __init__(self):
                super().__init__()
                self.decoder = nn.GRU(3, 3)
            def forward(self, x):
                return self.decoder(super().forward(x))

        @pytest.mark.limit_macs("1.1k")
        @pytest.mark.min_saved("30%")
        @pytest.mark.max_wasted("5%", infer_lengths=True)
        def test_one():
            Two()(torch.ones(5, 2, 2))
        """.replace("\n        ", "\n"),
        "-p",
        "no:warnings",
    )
    start = next(number for number, line in enumerate(result.outlines) if "test_one ___" in line)
    # Rows are 5 x 2: 10 x 60 MACs of the LSTM and 10 x 3 x 3 x (3 + 3) of the GRU.
    assert result.outlines[start + 1 : -1] == [
        "rnncost: 1,140 MACs executed, limit 1,100",
        "  rnn (LSTM 2x3): 600 MACs",
        "  decoder (GRU 3x3): 540 MACs",
        "rnncost: how much was wasted is unknown, limit 5.0 %",
        "  rnn (LSTM 2x3): padded calls of unknown lengths",
        "  decoder (GRU 3x3): padded calls of unknown lengths",
        "rnncost: 0.0 % of the padded mults saved, limit 30.0 %",
        "  rnn (LSTM 2x3): 0.0 % saved",
        "  decoder (GRU 3x3): 0.0 % saved",
        "=========================== short test summary info ============================",
        "FAILED test_it.py::test_one - rnncost: 1,140 MACs executed, limit 1,100",
    ]


def test_padding_that_comes_back_says_what_to_do(run: Run) -> None:
    result = run('@pytest.mark.max_wasted("5%")\ndef test_one(): padded()')
    result.stdout.fnmatch_lines(
        [
            "rnncost: how much was wasted is unknown, limit 5.0 %",
            "  rnn (LSTM 2x3): padded calls of unknown lengths",
            "Pack the batches; or infer_lengths=True in the marker takes trailing all-zero steps for padding.",
        ]
    )


@pytest.mark.parametrize("filters", [[], ["-W", "error"]])
@pytest.mark.parametrize("options", [[], ["--rnncost"]])
def test_uncounted_work_fails_a_limit_unless_partial(run: Run, filters: list[str], options: list[str]) -> None:
    result = run(
        "@pytest.mark.limit_macs(420)\ndef test_whole(): scripted(), packed()\n\n"
        "@pytest.mark.limit_macs(420, partial=True)\ndef test_partial(): scripted(), packed()\n\n"
        "@pytest.mark.limit_macs(419, partial=True)\ndef test_missed(): scripted(), packed()\n\n"
        "def test_unlimited(): scripted()\n",
        *filters,
        "-W",
        "ignore::DeprecationWarning",
        *options,
    )
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "rnncost: cannot be guaranteed, since recurrent work is uncounted",
            "  rnn (LSTM) is not counted: *",
            "partial=True in the marker holds what can be counted to the limit.",
        ]
    )
    assert "rnncost: 420 MACs executed, limit 419" in result.outlines


def test_what_a_fixture_runs_is_not_counted(run: Run) -> None:
    result = run(
        "@pytest.fixture\ndef output():\n    yield packed()\n    packed()\n\n"
        "@pytest.mark.limit_macs(420)\ndef test_both(output): packed()\n\n"
        "@pytest.mark.limit_macs(420)\ndef test_fixture(output): pass\n"
    )
    result.assert_outcomes(passed=1, failed=1)
    assert "Only the test's own call is counted, not its fixtures." in result.outlines


def test_a_failure_of_the_test_itself_is_kept_and_the_limit_is_noted(run: Run) -> None:
    result = run(
        "@pytest.mark.limit_macs(419)\ndef test_one():\n    packed()\n    assert 1 == 2\n\n"
        "@pytest.mark.limit_macs(419)\ndef test_early():\n    raise KeyError\n"
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E*assert 1 == 2", "*--- rnncost ---*", "rnncost: 420 MACs executed*"])
    assert sum("nothing to hold" in line or "--- rnncost" in line for line in result.outlines) == 1


@pytest.mark.parametrize(
    ("xfail", "outcomes"),
    [
        ("", {"xfailed": 1}),
        ("strict=True", {"xfailed": 1}),
        ("raises=AssertionError", {"xfailed": 1}),
        ("raises=rnncost.errors.RegressionError, strict=True", {"xfailed": 1}),
        ("raises=KeyError", {"failed": 1}),
        ("condition=False, reason='no'", {"failed": 1}),
    ],
)
def test_xfail_takes_a_missed_limit_for_the_failure(run: Run, xfail: str, outcomes: dict[str, int]) -> None:
    test = (
        f"import rnncost.errors\n@pytest.mark.xfail({xfail})\n@pytest.mark.limit_macs(%d)\ndef test_one(): packed()\n"
    )
    run(test % 419).assert_outcomes(**outcomes)
    if "condition" not in xfail:
        kept = run(test % 420)
        kept.assert_outcomes(**({"failed": 1} if "strict" in xfail else {"xpassed": 1}))


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("limit_macs('1.2X')", "limit_macs('1.2X'): '1.2X' is not a count; write one like 1200000 or 1.2M"),
        ("limit_macs(1.5)", "limit_macs(1.5): 1.5 is not a count; *"),
        ("limit_macs", "limit_macs(): limit_macs() missing 1 required positional argument: 'limit'"),
        ("max_wasted(5)", "max_wasted(5): 5 is not a share from 0 to 1; *"),
        ("max_wasted('5')", "max_wasted('5'): '5' is not a percentage from 0% to 100%; *"),
        ("min_saved('130%')", "min_saved('130%'): *"),
        ("min_saved('30%', 1)", "min_saved('30%', 1): *takes 1 positional argument but 2 were given"),
        ("min_saved('30%', partly=True)", "min_saved('30%', partly=True): *unexpected keyword argument 'partly'"),
        ("min_saved('30%', partial=1)", "min_saved('30%', partial=1): 1 is neither True nor False"),
    ],
)
def test_arguments_that_cannot_be_are_an_error_of_the_collection(run: Run, marker: str, message: str) -> None:
    result = run(f"@pytest.mark.{marker}\ndef test_bad(): raise KeyError('ran')\n\ndef test_good(): pass\n")
    result.assert_outcomes(errors=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*ERROR collecting test_it.py*", f"test_it.py::test_bad: {_escape(message)}"])


def test_markers_added_after_the_collection_count_too(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n"
        "def pytest_collection_modifyitems(items):\n    items[0].add_marker(pytest.mark.limit_macs(419))\n"
        "@pytest.fixture\ndef limited(request): request.node.add_marker(pytest.mark.limit_macs(419))\n"
        "@pytest.fixture\ndef unreadable(request): request.node.add_marker(pytest.mark.limit_macs('x'))\n"
    )
    result = run("def test_a(): packed()\ndef test_b(limited): packed()\ndef test_c(unreadable): packed()\n")
    result.assert_outcomes(failed=3)
    assert result.outlines.count("rnncost: 420 MACs executed, limit 419") == 2
    assert "rnncost: limit_macs('x'): 'x' is not a count; write one like 1200000 or 1.2M" in result.outlines


def test_markers_that_the_test_itself_adds_hold_or_are_refused(run: Run) -> None:
    add = "    packed()\n    request.applymarker(pytest.mark.limit_macs({}))\n"
    result = run(
        "def test_a(request):\n" + add.format(420) + "@pytest.mark.limit_macs(420)\n"
        "def test_b(request):\n" + add.format("'x'") + "@pytest.mark.max_wasted('0%')\n"
        "def test_c(request):\n" + add.format(419) + "@pytest.mark.max_wasted('0%')\n"
        "def test_d(request):\n" + add.format(420)
    )
    result.assert_outcomes(passed=2, failed=2)
    for line in (
        "rnncost: a limit was added by the test itself, too late to count; add it in a fixture",
        "rnncost: 420 MACs executed, limit 419",
    ):
        assert line in result.outlines


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("Refusing()", "limit_macs(<Refusing whose repr raises ValueError>): ValueError: no"),
        ("1, partial=Refusing()", "limit_macs(1, partial=<Refusing whose repr raises ValueError>): ValueError: no"),
        ("-(10**5000)", "limit_macs(<int whose repr raises ValueError>): ValueError: Exceeds the limit (4300*"),
    ],
)
def test_arguments_that_cannot_be_written_are_an_error_too(run: Run, argument: str, message: str) -> None:
    result = run(
        "class Refusing:\n    def __repr__(self): raise ValueError('no')\n\n"
        f"@pytest.mark.limit_macs({argument})\ndef test_bad(): pass\n"
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"test_it.py::test_bad: {message}"])


@pytest.mark.parametrize("limit", ["10**400", "10**5000"])
def test_a_limit_beyond_all_numbers_is_one(run: Run, limit: str) -> None:
    marker = f"@pytest.mark.limit_macs({limit})\n"
    result = run(f"{marker}def test_a(): packed()\n\n{marker}def test_b(): pass\n")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["rnncost: no recurrent layer ran, so there is nothing to hold to the limit 1.00e+*"])


def test_markers_are_registered_with_their_help(run: Run) -> None:
    lines = run("", "--markers").outlines
    for line in (
        "@pytest.mark.limit_macs(limit, *, partial=False): fail the test if its recurrent layers execute more than "
        '`limit` MACs (1200000 or "1.2M"), backward included.',
        "@pytest.mark.max_wasted(limit, *, partial=False, infer_lengths=False): fail the test if more than `limit` "
        '("5%" or 0.05) of the mults executed by recurrent layers are padding.',
        '@pytest.mark.min_saved(limit, *, partial=False): fail the test if less than `limit` ("30%" or 0.3) of the '
        "mults of the padded batches are saved.",
    ):
        assert line in lines


def test_the_help_of_a_marker_is_its_signature_and_docstring() -> None:
    assert MARKERS.keys() == FUNCTIONS.keys()
    for name, function in FUNCTIONS.items():
        signature = inspect.signature(function)
        bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
        said = inspect.getdoc(function) or ""
        assert MARKERS[name] == f"{name}{inspect.Signature(bare)}: {said[0].lower()}{said[1:]}"


def test_the_markers_are_known_where_the_plugin_is(pytester: pytest.Pytester) -> None:
    # In processes of their own: the names of markers that pytest has seen stay known in one.
    pytester.makepyfile("import pytest\n@pytest.mark.limit_macs(1)\ndef test_one(): pass")
    known = pytester.runpytest_subprocess(*QUIET, "--strict-markers")
    known.assert_outcomes(failed=1)
    without = pytester.runpytest_subprocess(*QUIET, "-p", "no:rnncost")
    without.assert_outcomes(passed=1, warnings=1)
    strict = pytester.runpytest_subprocess(*QUIET, "-p", "no:rnncost", "--strict-markers")
    strict.stdout.fnmatch_lines(["*'limit_macs' not found in `markers` configuration option*"])


def _escape(message: str) -> str:
    return message.replace("[", "[[]")
