"""What a recurrent module is, in the numbers that decide its cost."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from rnncost.counting.opcount import OpCount
from rnncost.errors import SpecError

Kind = Literal["rnn_tanh", "rnn_relu", "gru", "lstm"]
GATES: dict[Kind, int] = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}
_MAX_LAYERS = 10_000
_SIZE = re.compile(r"[0-9]{1,9}")
_TITLES: dict[Kind, str] = {"rnn_tanh": "RNN-tanh", "rnn_relu": "RNN-relu", "gru": "GRU", "lstm": "LSTM"}


class RnnSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="rnn"):
    """The sizes and options of one recurrent module, named as in ``torch.nn.LSTM``.

    ``cell`` marks a cell such as ``torch.nn.LSTMCell``, each of whose calls is one step.

    Raises:
        SpecError: if no such module can exist (sizes below 1, a projection that is not
            smaller than the hidden size or not of an LSTM).
    """

    kind: Kind
    input_size: int
    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    bidirectional: bool = False
    proj_size: int = 0
    cell: bool = False

    def __post_init__(self) -> None:
        if self.kind not in GATES:
            raise SpecError(f"kind is {self.kind!r}; use one of {', '.join(GATES)}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_layers > _MAX_LAYERS:
            raise SpecError(f"num_layers is {self.num_layers}; more than {_MAX_LAYERS:,} are not supported")
        if not 0 <= self.proj_size < self.hidden_size:
            raise SpecError(f"proj_size is {self.proj_size}; it must lie from 0 to hidden_size - 1")
        if self.proj_size and self.kind != "lstm":
            raise SpecError(f"proj_size is {self.proj_size} for {self.kind!r}; only an LSTM can have a projection")

    @classmethod
    def of_widths(
        cls, kind: Kind, *, inputs: int, state: int, cell: int | None, num_layers: int, bias: bool, bidirectional: bool
    ) -> RnnSpec:
        """The module that a kernel computes, from the widths of its input and states.

        A cell state (LSTM) is as wide as the hidden size; a hidden state narrower than that is a
        projection.
        """
        hidden = state if cell is None else cell
        return cls(
            kind=kind,
            input_size=inputs,
            hidden_size=hidden,
            num_layers=num_layers,
            bias=bias,
            bidirectional=bidirectional,
            proj_size=state if state != hidden else 0,
        )

    @classmethod
    def parse(cls, text: str) -> RnnSpec:
        """Reads a spec such as ``lstm:12x64x2:bi``.

        The grammar is ``KIND:INPUTxHIDDEN[xLAYERS][:OPTION]…`` with KIND one of ``lstm``, ``gru``,
        ``rnn`` or ``rnn_tanh``, and ``rnn_relu``; the options are ``bi`` (both directions),
        ``proj=N`` (a projection to N) and ``nobias``.

        Raises:
            SpecError: naming the part that cannot be read, or sizes that no module can have.
        """
        kind, *parts = text.strip().lower().split(":")
        kind = {"rnn": "rnn_tanh"}.get(kind, kind)
        if kind not in GATES or not parts:
            raise SpecError(f"{text!r} is not a recurrent layer; write one like lstm:12x64x2:bi")
        sizes = parts[0].split("x")
        if not 2 <= len(sizes) <= 3 or not all(_SIZE.fullmatch(size) for size in sizes):
            raise SpecError(f"{parts[0]!r} in {text!r} is not INPUTxHIDDEN or INPUTxHIDDENxLAYERS, such as 12x64x2")
        options: dict[str, Any] = {}
        for option in parts[1:]:
            name, _, value = option.partition("=")
            if option == "bi":
                options["bidirectional"] = True
            elif option == "nobias":
                options["bias"] = False
            elif name == "proj" and _SIZE.fullmatch(value):
                options["proj_size"] = int(value)
            else:
                raise SpecError(f"{option!r} in {text!r} is not an option; use bi, nobias or proj=N")
        names = ("input_size", "hidden_size", "num_layers")
        options.update({name: int(size) for name, size in zip(names, sizes, strict=False)})
        return cls(kind=kind, **options)

    @property
    def gates(self) -> int:
        """Gates of one cell: 1, 3 or 4."""
        return GATES[self.kind]

    @property
    def directions(self) -> int:
        """1, or 2 for a bidirectional module."""
        return 2 if self.bidirectional else 1

    @property
    def output_size(self) -> int:
        """Width of the hidden state that one cell hands on: the projection's, where there is one."""
        return self.proj_size or self.hidden_size

    @property
    def layer_input_sizes(self) -> tuple[int, ...]:
        """Input width of each layer: the first reads the input, the others all directions below."""
        return (self.input_size, *[self.output_size * self.directions] * (self.num_layers - 1))

    def __str__(self) -> str:
        title = _TITLES[self.kind] + (" cell" if self.cell else "")
        text = f"{title} {self.input_size}x{self.hidden_size}"
        if self.num_layers > 1:
            text += f"x{self.num_layers}"
        if self.bidirectional:
            text += " bi"
        if self.proj_size:
            text += f" proj {self.proj_size}"
        return text if self.bias else text + " no bias"


class CustomSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom"):
    """A recurrent module that is none of torch's kinds, known by what one row of it costs.

    Attributes:
        title: its kind and sizes, for reports.
        row: operations of one step of one sequence through the whole module.
    """

    title: str
    row: OpCount

    def __str__(self) -> str:
        return self.title


Spec = RnnSpec | CustomSpec
