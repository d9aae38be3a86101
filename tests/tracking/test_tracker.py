"""What the tracker reads off calls, in every form that a call can take."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import rnncost
from rnncost.counting import BatchShape, RnnSpec, Tally, formulas
from rnncost.errors import TrackerStateError, UnsupportedModuleError
from tests.builders import build_module, on_meta, packed_batch, padded_batch
from tests.oracle import dispatched, same_operations
from tests.tracking.models import Failing, Holder, SubLSTM, Tagger, Twice
from tests.tracking.reading import only, rows

LENGTHS = (5, 4, 4, 1)


def track(model: nn.Module, *args: Any, **kwargs: Any) -> rnncost.LayerCost:
    return only(rnncost.analyze(model, *args, **kwargs))


def test_a_packed_batch() -> None:
    layer = track(nn.LSTM(2, 3), packed_batch([5, 2], 2))
    assert (layer.executed.mults, layer.padded.mults, layer.saved.mults) == (483, 690, 207)
    assert (layer.executed.adds, layer.padded.adds) == (525, 750)
    assert (layer.saved_fraction, layer.wasted_fraction) == (0.3, 0.0)
    assert layer.packed == layer.executed


def test_a_padded_batch_of_unknown_lengths() -> None:
    layer = track(nn.LSTM(2, 3), padded_batch([5, 2], 2))
    assert rows(layer) == (10, 10, None)
    assert (layer.executed.mults, layer.padded.mults, layer.packed, layer.wasted) == (690, 690, None, None)
    assert layer.wasted_fraction is None


def test_batch_first_swaps_sequences_and_steps() -> None:
    tallies = [
        track(nn.GRU(2, 3, batch_first=batch_first), padded_batch([5, 2], 2, batch_first=batch_first)).tally
        for batch_first in (False, True)
    ]
    assert tallies[0] == tallies[1] == Tally.of(BatchShape.rectangle(sequences=2, steps=5))


@pytest.mark.parametrize("batch_first", [False, True])
def test_unbatched_input_is_one_sequence(batch_first: bool) -> None:
    layer = track(nn.GRU(2, 3, batch_first=batch_first), torch.zeros(5, 2))
    assert layer.tally == Tally.of(BatchShape.rectangle(sequences=1, steps=5))


def test_unsorted_batches_are_the_same_batch() -> None:
    data = padded_batch([5, 4, 1], 2)
    given = [pack_padded_sequence(data, torch.tensor([5, 4, 1]), enforce_sorted=flag) for flag in (False, True)]
    tallies = [track(nn.GRU(2, 3), packed).tally for packed in given]
    assert tallies[0] == tallies[1]
    assert track(nn.GRU(2, 3), packed_batch([1, 5, 4], 2)).tally == tallies[0]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("with_state", [False, True])
def test_keyword_calls_and_given_states(packed: bool, with_state: bool) -> None:
    module = nn.LSTM(2, 3)
    batch = (packed_batch if packed else padded_batch)([5, 2], 2)
    state = (torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)) if with_state else None
    positional = track(module, batch, state)
    keyword = track(module, input=batch, hx=state)
    mixed = track(module, batch, hx=state)
    assert positional == keyword == mixed
    assert rows(positional)[:2] == ((7, 10) if packed else (10, 10))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_every_gradient_mode(mode: Callable[[], Any]) -> None:
    with mode():
        assert rows(track(nn.LSTM(2, 3), packed_batch([5, 2], 2))) == (7, 10, 7)


def test_a_subclass_is_counted() -> None:
    layer = track(SubLSTM(2, 3), packed_batch([5, 2], 2))
    assert layer.name == "SubLSTM"
    assert layer.executed.mults == 483


def test_calls_are_counted_not_tree_positions() -> None:
    report = rnncost.analyze(Twice(), torch.zeros(5, 2, 3))
    assert [layer.name for layer in report.layers] == ["first"]
    assert report.layers[0].tally.calls == 2


def test_names_and_the_models_own_order() -> None:
    model = Tagger()
    report = rnncost.analyze(model, torch.zeros(3, 6, 3), [6, 2, 3])
    assert [layer.name for layer in report.layers] == ["encoder", "decoder"]
    assert [layer.tally.rows for layer in report.layers] == [11, 18]
    assert report.executed == report.layers[0].executed + report.layers[1].executed
    assert (report.packed, report.wasted) == (None, None)
    assert [layer.name for layer in rnncost.analyze(nn.GRU(3, 3), torch.zeros(2, 1, 3)).layers] == ["GRU"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_real_model_equals_what_was_dispatched(packed: bool) -> None:
    spec = RnnSpec(kind="gru", input_size=3, hidden_size=4, num_layers=2, bidirectional=True)
    model = Holder(build_module(spec))
    batch = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    with torch.no_grad(), rnncost.CostTracker(model) as tracker, dispatched() as seen:
        for _ in range(3):
            model(batch)
    assert same_operations(tracker.report.executed, seen.count)


def test_outputs_do_not_change_by_a_bit() -> None:
    torch.manual_seed(0)
    model, x = Tagger(), torch.randn(3, 6, 3)
    bare = model(x, [6, 2, 3])
    with rnncost.CostTracker(model):
        tracked = model(x, [6, 2, 3])
    assert torch.equal(bare, tracked)


def test_no_tensor_is_kept_alive() -> None:
    model = nn.LSTM(2, 3)
    with rnncost.CostTracker(model) as tracker:
        batch = packed_batch([5, 2], 2)
        output, _ = model(batch)
        alive = [weakref.ref(batch.data), weakref.ref(batch.batch_sizes), weakref.ref(output.data)]
        del batch, output, _
        gc.collect()
        assert [reference() for reference in alive] == [None] * 3
    assert tracker.report.layers[0].tally.calls == 1


def test_only_sizes_are_read() -> None:
    # The meta device has no values at all: whoever reads one fails.
    module = nn.LSTM(2, 3, device="meta")
    packed = packed_batch([5, 2], 2)
    assert rows(track(module, on_meta(packed))) == (7, 10, 7)
    assert rows(track(module, torch.zeros(5, 2, 2, device="meta"))) == (10, 10, None)


def test_an_exception_comes_out_and_what_ran_stays() -> None:
    model = Failing()
    error: BaseException | None = None
    tracker = rnncost.CostTracker(model)
    with pytest.raises(KeyError, match="from forward") as caught, tracker:
        try:
            model(torch.zeros(4, 2, 3))
        except KeyError as raised:
            error = raised
            raise
    assert caught.value is error
    assert tracker.report.layers[0].tally.rows == 8
    model_calls = tracker.report.layers[0].tally.calls
    with pytest.raises(KeyError):
        model(torch.zeros(4, 2, 3))
    assert tracker.report.layers[0].tally.calls == model_calls == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_hooks_go_on_every_way_out(error: type[BaseException]) -> None:
    module = nn.GRU(2, 3)
    with pytest.raises(error), rnncost.CostTracker(module):
        raise error
    assert not module._forward_hooks
    assert not module._forward_hooks_with_kwargs


def test_nested_and_overlapping_trackers_each_count() -> None:
    module, batch = nn.GRU(2, 3), packed_batch([5, 2], 2)
    first, second, everywhere = rnncost.CostTracker(module), rnncost.CostTracker(module), rnncost.CostTracker()
    first.__enter__()
    module(batch)
    second.__enter__()
    everywhere.__enter__()
    module(batch)
    first.__exit__(None, None, None)
    module(batch)
    second.__exit__(None, None, None)
    everywhere.__exit__(None, None, None)
    module(batch)
    assert [tracker.report.layers[0].tally.calls for tracker in (first, second, everywhere)] == [2, 2, 2]


def test_a_report_in_the_middle_is_a_snapshot_and_entering_again_adds() -> None:
    module, batch = nn.GRU(2, 3), packed_batch([5, 2], 2)
    tracker = rnncost.CostTracker(module)
    with tracker:
        module(batch)
        middle = tracker.report
        module(batch)
    with tracker:
        module(batch)
    assert (middle.layers[0].tally.calls, tracker.report.layers[0].tally.calls) == (1, 3)


def test_entering_twice_is_refused_and_harms_nothing() -> None:
    module = nn.GRU(2, 3)
    with rnncost.CostTracker(module) as tracker:
        with pytest.raises(TrackerStateError, match="already entered"):
            tracker.__enter__()
        module(torch.zeros(1, 1, 2))
    assert tracker.report.layers[0].tally.calls == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [("LSTM", "is a str, not a torch.nn.Module"), (nn.LSTM, "is the class LSTM; pass an instance"), (3, "is a int")],
)
def test_what_is_not_a_module_is_refused(model: Any, message: str) -> None:
    with pytest.raises(UnsupportedModuleError, match=message):
        rnncost.CostTracker(model)


def test_a_model_without_recurrent_layers() -> None:
    report = rnncost.analyze(nn.Linear(2, 2), torch.zeros(1, 2))
    assert report.layers == ()
    assert report.saved_fraction is None


def test_a_layer_that_was_never_called_is_listed() -> None:
    with rnncost.CostTracker(Tagger()) as tracker:
        pass
    assert [(layer.name, layer.tally.calls) for layer in tracker.report.layers] == [("encoder", 0), ("decoder", 0)]


def test_an_empty_batch() -> None:
    layer = track(nn.GRU(2, 3), torch.zeros(4, 0, 2))
    assert (layer.tally.calls, layer.executed.mults, layer.saved_fraction) == (1, 0, None)


def test_no_count_is_lost_between_threads() -> None:
    module, batch = nn.RNN(1, 1), packed_batch([2, 1], 1)
    with rnncost.CostTracker(module) as tracker:
        threads = [threading.Thread(target=lambda: [module(batch) for _ in range(200)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert tracker.report.layers[0].tally.calls == 1600
    assert tracker.report.layers[0].tally.rows == 4800


def test_the_sample_is_bounded_seeded_and_holds_real_shapes() -> None:
    module = nn.RNN(1, 1)
    batches = [packed_batch([length, 1], 1) for length in range(1, 101)]

    def run() -> rnncost.CostReport:
        with torch.no_grad(), rnncost.CostTracker(module) as tracker:
            for batch in batches:
                module(batch)
        return tracker.report

    first, second = run(), run()
    assert first == second
    shapes = [sample.shape for sample in first.layers[0].samples]
    assert len(shapes) == 32
    possible = {BatchShape.from_lengths([length, 1]) for length in range(1, 101)}
    assert set(shapes) <= possible
    assert len({shape.steps for shape in shapes}) == 32


def test_a_subclass_of_packed_sequence_is_packed() -> None:
    class Marked(PackedSequence):
        pass

    packed = packed_batch([5, 2], 2)
    assert rows(track(nn.GRU(2, 3), Marked(*packed))) == (7, 10, 7)


def test_formulas_and_tracker_meet() -> None:
    layer = track(nn.LSTM(2, 3), packed_batch(LENGTHS, 2))
    assert layer.executed == formulas.forward(layer.spec, Tally.of(BatchShape.from_lengths(LENGTHS)))
