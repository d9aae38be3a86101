"""Operations of the backward pass of recurrent modules, as autograd performs them natively.

Source: the graph that ``aten/src/ATen/native/RNN.cpp`` builds and the derivative of each of its
operations (``tools/autograd/derivatives.yaml``); the tests compare with dispatched operations.
Names as in :mod:`rnncost.counting.formulas`. A derivative of sigmoid or tanh is 2 mults and 1 add;
a sum of n rows is n − 1 adds. Sums of gradients (over rows, steps, or several uses of one tensor)
are ``accumulate_adds``. Changing a sign and selecting are neither mults nor adds.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rnncost.counting.kinds import BackwardKind
from rnncost.counting.opcount import OpCount
from rnncost.counting.spec import RnnSpec
from rnncost.counting.tally import Tally


def backward(spec: RnnSpec, kind: BackwardKind, tally: Tally) -> OpCount:
    """Operations of the backward passes that ``tally`` sums up.

    Args:
        spec: the module.
        kind: what wanted gradients and what they came through, the same for all calls.
        tally: the calls, once for each time that their backward ran.

    Bounds: an LSTM that wants no gradient but of the given cell state or of its projection is
    counted by up to a few H·b_t of one step too many or too few. A batch without sequences, whose
    backward adds zeros to zeros, counts nothing. Sums into a ``.grad`` that exists already belong
    to the parameter, not to the layer, and are not counted; nor is the sum of the gradients of one
    tensor that serves as several weights or states, in one module or in several.
    """
    total = OpCount()
    for layer, directions in enumerate(_layers(spec, kind)):
        input_size = spec.layer_input_sizes[layer]
        for direction in directions:
            total += _direction_cost(spec, direction, input_size, tally)
        if directions[0].input_grad and all(one.gates_grad for one in directions) and spec.bidirectional:
            # Both directions hand back a gradient of the one input.
            total += OpCount(accumulate_adds=tally.rows * input_size)
        if kind.dropout_mults and layer and directions[0].input_grad:
            total += OpCount(gate_mults=tally.rows * input_size)
    return total + _reordering(spec, kind, tally) + _shared_weights(spec, kind, tally)


def slicing_adds(spec: RnnSpec, kind: BackwardKind, tally: Tally) -> int:
    """The part of :func:`backward` that only packing causes, quadratic in the number of steps.

    Each step's rows are narrowed out of all N, so that the derivative of each step is a tensor
    of N rows, and autograd adds them up: (T − 1)·N·G·H additions a layer and direction.
    """
    narrowed = sum(one.projected_grad for directions in _layers(spec, kind) for one in directions)
    return narrowed * _narrowing_adds(spec, tally) if kind.packed else 0


def _narrowing_adds(spec: RnnSpec, tally: Tally) -> int:
    return (tally.step_rows - tally.rows) * spec.gates * spec.hidden_size


class _Direction(msgspec.Struct, frozen=True, kw_only=True):
    """What requires grad in one layer and direction, and what the gradient arrives through."""

    reverse: bool
    packed: bool
    input_grad: bool
    state_grad: bool
    cell_grad: bool
    weight_ih: bool
    weight_hh: bool
    weight_hr: bool
    bias_ih: bool
    bias_hh: bool
    through_output: bool
    through_state: bool
    through_cell: bool

    @property
    def projected_grad(self) -> bool:
        """The product of the input and its weights requires grad."""
        return self.input_grad or self.weight_ih or self.bias_ih

    @property
    def hidden_product_grad(self) -> bool:
        """The first product of the state and its weights requires grad."""
        return self.weight_hh or self.bias_hh or self.state_grad

    @property
    def gates_grad(self) -> bool:
        """The gates of the first step require grad."""
        return self.projected_grad or self.hidden_product_grad

    @property
    def output_grad(self) -> bool:
        """The output requires grad."""
        return self.gates_grad or self.cell_grad or self.weight_hr


def _layers(spec: RnnSpec, kind: BackwardKind) -> Iterator[list[_Direction]]:
    """The directions of each layer; a layer's input requires grad where the output below does."""
    input_grad = kind.input_grad
    for layer in range(spec.num_layers):
        directions = [_direction(spec, kind, layer, reverse, input_grad) for reverse in range(spec.directions)]
        yield directions
        input_grad = any(one.output_grad for one in directions)


def _direction(spec: RnnSpec, kind: BackwardKind, layer: int, reverse: int, input_grad: bool) -> _Direction:
    suffix = f"_l{layer}" + ("_reverse" if reverse else "")

    def trained(name: str, *, there: bool = True) -> bool:
        return there and name + suffix not in kind.frozen

    top = layer == spec.num_layers - 1
    return _Direction(
        reverse=bool(reverse),
        packed=kind.packed,
        input_grad=input_grad,
        state_grad=kind.state_grad,
        cell_grad=kind.cell_grad,
        weight_ih=trained("weight_ih"),
        weight_hh=trained("weight_hh"),
        weight_hr=trained("weight_hr", there=spec.proj_size > 0),
        bias_ih=trained("bias_ih", there=spec.bias),
        bias_hh=trained("bias_hh", there=spec.bias),
        # The layer above always hands its gradient down.
        through_output=kind.through_output or not top,
        through_state=kind.through_state,
        through_cell=kind.through_cell,
    )


def _direction_cost(spec: RnnSpec, direction: _Direction, input_size: int, tally: Tally) -> OpCount:
    if not direction.output_grad:
        return OpCount()
    first, last = tally.first_rows, tally.last_rows
    if direction.reverse:
        first, last = last, first
    cell = _lstm_cell if spec.kind == "lstm" else _gru_cell if spec.kind == "gru" else _rnn_cell
    total = cell(spec, direction, tally, first, last)
    total += _input_products(spec, direction, input_size, tally)
    total += _hidden_products(spec, direction, tally, first)
    return total + _state_joins(spec, direction, tally, last)


def _input_products(spec: RnnSpec, direction: _Direction, input_size: int, tally: Tally) -> OpCount:
    """The one product of all rows with W_ih, and how its rows' gradients come together."""
    width = spec.gates * spec.hidden_size
    total = OpCount()
    if direction.weight_ih:
        # grad W_ih = (gates, N) x (N, I), one product a call: N - 1 adds a dot product.
        total += _weight_product(width * input_size, tally.rows, tally.calls)
    if direction.input_grad:
        # grad x = (N, gates) x (gates, I)
        total += OpCount.product(tally.rows, input_size, width)
    if direction.bias_ih:
        total += OpCount(accumulate_adds=(tally.rows - tally.calls) * width)
    if direction.projected_grad and direction.packed:
        total += OpCount(accumulate_adds=_narrowing_adds(spec, tally))
    return total


def _hidden_products(spec: RnnSpec, direction: _Direction, tally: Tally, first: int) -> OpCount:
    """A product with W_hh, and with W_hr where there is a projection, at each step."""
    width, state = spec.gates * spec.hidden_size, spec.output_size
    joins = tally.steps - tally.calls
    total = OpCount()
    if direction.weight_hh:
        total += _weight_product(width * state, tally.rows, tally.steps)
        total += OpCount(accumulate_adds=joins * width * state)
    if direction.bias_hh:
        # Rows are summed at each step, then the steps.
        total += OpCount(accumulate_adds=(tally.rows - tally.steps + joins) * width)
    rows = tally.rows if direction.state_grad else tally.rows - first
    return total + OpCount.product(rows, state, width)


def _projection(spec: RnnSpec, direction: _Direction, tally: Tally, first: int, last: int) -> OpCount:
    """The projection of the state, where the last step's is reached by a gradient or not."""
    reached = direction.through_output or direction.through_state
    rows = tally.rows if reached else tally.rows - last
    steps = tally.steps if reached else tally.steps - tally.calls
    total = OpCount()
    if direction.weight_hr:
        weights = spec.proj_size * spec.hidden_size
        total += _weight_product(weights, rows, steps)
        total += OpCount(accumulate_adds=max(0, steps - tally.calls) * weights)
    if not (direction.gates_grad or direction.cell_grad):
        rows -= first  # the unprojected state of the first step requires none
    return total + OpCount.product(rows, spec.hidden_size, spec.proj_size)


def _lstm_cell(spec: RnnSpec, direction: _Direction, tally: Tally, first: int, last: int) -> OpCount:
    """C' = f·c + i·g; h' = o·tanh(c')."""
    hidden, rows = spec.hidden_size, tally.rows
    reached = rows if direction.through_output or direction.through_state else rows - last
    if direction.gates_grad:
        gate_rows, output_rows, cell_rows = rows, reached, reached
    else:
        # Nothing but the cell state (or the projection) requires grad at the first step.
        gate_rows, output_rows = rows - first, reached - first
        cell_rows = reached if direction.cell_grad else reached - first
    # i·g hands back 2 products, f·c one for f and one for c, o·tanh(c) one for o and one for tanh(c).
    mults = 3 * gate_rows + (rows if direction.cell_grad else rows - first) + output_rows + cell_rows
    derivatives = 3 * gate_rows + output_rows + cell_rows  # i, f, g; o; tanh(c)
    # c' is used by tanh and, but for the last step, by the next step.
    joins = rows - last
    if direction.through_cell:
        if direction.through_output or direction.through_state:
            joins += last
        if direction.packed and not direction.reverse:
            joins += tally.shrink_rows
    if not direction.gates_grad and not direction.cell_grad:
        joins -= first
    total = OpCount(
        gate_mults=(mults + 2 * derivatives) * hidden,
        gate_adds=derivatives * hidden,
        accumulate_adds=joins * hidden,
    )
    if direction.cell_grad and direction.packed and direction.reverse:
        total += OpCount(accumulate_adds=tally.slice_rows * hidden)
    if spec.proj_size:
        total += _projection(spec, direction, tally, first, last)
    return total


def _gru_cell(spec: RnnSpec, direction: _Direction, tally: Tally, first: int, last: int) -> OpCount:
    """N = tanh(i_n + h_n·r); h' = (h − n)·z + n."""
    hidden, rows = spec.hidden_size, tally.rows
    # h_n·r: for h_n, which at the first step may require none, and for r; (h − n)·z: for both.
    mults = 4 * rows - (0 if direction.hidden_product_grad else first)
    derivatives = 3 * rows  # r, z, n
    # n is used twice; h twice by each step but the first, whose state may require none.
    joins = rows + (rows if direction.state_grad else rows - first)
    return OpCount(
        gate_mults=(mults + 2 * derivatives) * hidden,
        gate_adds=derivatives * hidden,
        accumulate_adds=joins * hidden,
    )


def _rnn_cell(spec: RnnSpec, direction: _Direction, tally: Tally, first: int, last: int) -> OpCount:
    """H' = tanh(gates), or relu, whose derivative selects."""
    derivatives = tally.rows if spec.kind == "rnn_tanh" else 0
    return OpCount(gate_mults=2 * derivatives * spec.hidden_size, gate_adds=derivatives * spec.hidden_size)


def _state_joins(spec: RnnSpec, direction: _Direction, tally: Tally, last: int) -> OpCount:
    """Sums where a state is used by the output, by the next step and as a final state."""
    joins = 0
    if direction.through_output:
        joins += tally.rows - last
    if direction.through_state:
        if direction.through_output:
            joins += last
        if direction.packed and not direction.reverse:
            joins += tally.shrink_rows  # final states of the sequences that end early
    if direction.state_grad and direction.packed and direction.reverse:
        joins += tally.slice_rows  # initial states are sliced out step by step
    return OpCount(accumulate_adds=joins * spec.output_size)


def _reordering(spec: RnnSpec, kind: BackwardKind, tally: Tally) -> OpCount:
    """The gradient of reordering states, which adds them into zeros, where a batch was not sorted."""
    if not kind.unsorted:
        return OpCount()
    sequences = tally.sequences * spec.num_layers * spec.directions
    states = kind.through_state + kind.state_grad
    cells = kind.through_cell + kind.cell_grad
    return OpCount(accumulate_adds=sequences * (states * spec.output_size + cells * spec.hidden_size))


def _weight_product(weights: int, rows: int, products: int) -> OpCount:
    """Gradients of ``weights`` weights, by products that sum over ``rows`` rows in all."""
    return OpCount(matmul_mults=weights * rows, matmul_adds=weights * (rows - products))


def _shared_weights(spec: RnnSpec, kind: BackwardKind, tally: Tally) -> OpCount:
    """Sums of the weights' gradients over several calls in one backward pass."""
    sizes = 0
    width = spec.gates * spec.hidden_size
    for layer, input_size in enumerate(spec.layer_input_sizes):
        parts = {
            "weight_ih": width * input_size,
            "weight_hh": width * spec.output_size,
            "bias_ih": width * spec.bias,
            "bias_hh": width * spec.bias,
            "weight_hr": spec.proj_size * spec.hidden_size,
        }
        for suffix in ("", "_reverse")[: spec.directions]:
            sizes += sum(size for part, size in parts.items() if f"{part}_l{layer}{suffix}" not in kind.frozen)
    return OpCount(accumulate_adds=sizes * (tally.calls - tally.passes))
