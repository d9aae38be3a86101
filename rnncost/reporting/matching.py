"""Which layer of one report is which layer of another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from rnncost.reporting.comparison import LayerFigures

Pair = tuple[LayerFigures | None, LayerFigures | None]


def match_layers(baseline: Sequence[LayerFigures], current: Sequence[LayerFigures]) -> tuple[Pair, ...]:
    """Pairs each layer with its counterpart, in the order of ``current``; those removed come last.

    Equal name and spec go first, then equal names, in order; then, as renamed layers, equal specs
    with equal work, in order; then a spec that one layer of each side is left with.
    Within one report no two layers have both name and spec in common, but for an estimate and a run.
    """
    found: dict[int, int] = {}
    for key in (_name_and_spec, _name, _spec_and_work):
        _pair(baseline, current, key, found)
    _pair(baseline, current, _spec, found, only_single=True)
    taken = set(found.values())
    pairs: list[Pair] = [(baseline[found[n]] if n in found else None, layer) for n, layer in enumerate(current)]
    return (*pairs, *((layer, None) for n, layer in enumerate(baseline) if n not in taken))


def _pair(
    baseline: Sequence[LayerFigures],
    current: Sequence[LayerFigures],
    key: Callable[[LayerFigures], Hashable],
    found: dict[int, int],
    *,
    only_single: bool = False,
) -> None:
    """Adds to ``found`` (current index: baseline index) the free layers whose keys agree."""
    taken = set(found.values())
    before = _places(baseline, key, taken)
    after = _places(current, key, set(found))
    for value, places in after.items():
        if only_single and not len(places) == len(before[value]) == 1:
            continue
        found.update(zip(places, before[value], strict=False))


def _places(
    layers: Sequence[LayerFigures], key: Callable[[LayerFigures], Hashable], taken: set[int]
) -> defaultdict[Hashable, list[int]]:
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number, layer in enumerate(layers):
        if number not in taken:
            places[key(layer)].append(number)
    return places


def _name_and_spec(layer: LayerFigures) -> Hashable:
    return layer.name, layer.spec


def _name(layer: LayerFigures) -> Hashable:
    return layer.name


def _spec_and_work(layer: LayerFigures) -> Hashable:
    return layer.spec, layer.work


def _spec(layer: LayerFigures) -> Hashable:
    return layer.spec
