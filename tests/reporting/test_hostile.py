"""What a report holds is data to every renderer: no part of it is markup or steers a terminal."""

from __future__ import annotations

import re

import msgspec

from rnncost.counting import OpCount
from rnncost.counting.spec import CustomSpec
from rnncost.reporting import CostReport, Uncounted
from rnncost.reporting.compare import compare
from rnncost.reporting.contamination import Contamination
from rnncost.reporting.limits import max_macs_missed
from rnncost.reporting.renderers.comparison.text import TextComparison
from rnncost.reporting.renderers.csv import CsvRenderer
from rnncost.reporting.renderers.html import HtmlRenderer
from rnncost.reporting.renderers.markdown import MarkdownRenderer
from rnncost.reporting.renderers.text import TextRenderer
from rnncost.reporting.timing import RunTime
from rnncost.reporting.verification import Verification
from rnncost.reporting.whole_model import WholeModel
from tests.reporting.reports import packed_layer
from tests.reporting.test_text import CONDITIONS, timing


def test_nothing_of_a_report_steers_a_terminal_or_turns_text_round() -> None:
    evil = "\x1b[31m\x07\u202e\x9b"
    layer = msgspec.structs.replace(
        packed_layer(evil, [5, 2]),
        spec=CustomSpec(title=evil, row=OpCount(matmul_mults=1)),
        timings=(timing("padded", 1.0, "same", 10), timing("packed" + evil, 1.5, evil, 7)),
        conditions=msgspec.structs.replace(
            CONDITIONS, device=evil, dtype=evil, kernels={"packed": evil, "padded": "b"}
        ),
        best_layout="packed" + evil,
        untimed=evil,
        run_time=RunTime(device=evil, forward_calls=1, forward_s=1.0),
    )
    found = CostReport(
        layers=(layer,),
        uncounted=(Uncounted(name=evil, type_name=evil, reason=evil),),
        verification=Verification(calls=1, differences=(evil,)),
        contaminations=(Contamination(name=evil, unchecked=evil),),
        whole_models=(WholeModel(counter=evil, reason=evil, total_macs=2, recurrent_macs=1, saved_macs=1),),
        versions={evil: (evil,)},
        commands=(evil,),
    )
    for drawn in (
        TextRenderer(width=200).render(found),
        HtmlRenderer().render(found).partition('<script type="application/json"')[0],
        MarkdownRenderer().render(found),
        CsvRenderer().render(found),
        found._repr_html_(),
        str(max_macs_missed(found, 1)),
        TextComparison().render(compare(found, found)),
    ):
        assert not re.search("[\x07\x1b\x9b\u202e]", drawn)
        assert "\\u202e" in drawn
