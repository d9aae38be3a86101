"""Other people's models, unmodified, each with one call of it: the cases of ``real_models.py``.

Run in the environment that ``python -m tests.benchmarks.real_models`` makes.
"""

from __future__ import annotations

import torch
from torch import Tensor

import rnncost
from tests.benchmarks.real_models import Case, report_on
from tests.builders import packed_batch, padded_batch

TEXT = """
Call/VERB me/PRON Ishmael/PROPN ./PUNCT
It/PRON is/AUX a/DET way/NOUN I/PRON have/VERB of/ADP driving/VERB off/ADP the/DET spleen/NOUN ./PUNCT
There/PRON now/ADV is/VERB your/PRON insular/ADJ city/NOUN of/ADP the/DET Manhattoes/PROPN ./PUNCT
What/PRON do/AUX you/PRON see/VERB ?/PUNCT
But/CCONJ look/VERB !/PUNCT
Nothing/PRON will/AUX content/VERB them/PRON but/ADP the/DET extremest/ADJ limit/NOUN of/ADP the/DET land/NOUN ./PUNCT
Yes/INTJ ,/PUNCT as/SCONJ every/DET one/PRON knows/VERB ,/PUNCT meditation/NOUN and/CCONJ water/NOUN are/AUX
"""
SENTENCES = [[token.split("/") for token in line.split()] for line in TEXT.strip().splitlines()]
WORDS = sum(len(sentence) for sentence in SENTENCES)
LETTERS = sum(len(word) for sentence in SENTENCES for word, _ in sentence)
LENGTHS = (40, 31, 31, 24, 12, 9, 5, 2)


def stanza_tagger() -> Case:
    from stanza.models.pos.data import Dataset  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from stanza.models.pos.model import Tagger  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from stanza.models.pos.trainer import unpack_batch  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from stanza.models.tagger import build_argparse  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from stanza.utils.conll import CoNLL  # type: ignore[import-not-found,import-untyped,unused-ignore]

    args = vars(build_argparse().parse_args(["--no_pretrain", "--augment_nopunct", "0", "--shorthand", "en_none"]))
    lines = [
        [f"{number}\t{word}\t_\t{tag}\t{tag}\t_\t0\t_\t_\t_" for number, (word, tag) in enumerate(sentence, 1)]
        for sentence in SENTENCES
    ]
    document = CoNLL.conll2doc(input_str="\n\n".join("\n".join(sentence) for sentence in lines) + "\n\n")
    data = Dataset(document, args, None)
    batch = next(iter(data.to_loader(batch_size=len(SENTENCES))))
    inputs, _, word_order, lengths, word_lengths, text = unpack_batch(batch, "cpu")
    model = Tagger(args, data.vocab)

    def run() -> Tensor:
        loss: Tensor = model(*inputs, word_order, lengths, word_lengths, text)[0]
        return loss

    return Case(
        name="stanza_tagger",
        model=model,
        run=run,
        real_rows=LETTERS + 2 * WORDS,
        shows="Stanza's tagger with its default sizes on seven sentences, random weights, one step of training. "
        "A character LSTM reads all words of the batch packed, and two packed bidirectional LSTMs under highway "
        "connections read the sentences. Everything is packed, so nothing is wasted; hooks find the LSTMs three "
        "modules deep, and highway products, which are no recurrent work, stay out of the count.",
    )


def stanza_recurrent_dropout() -> Case:
    from stanza.models.common.packed_lstm import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        PackedLSTM,
    )

    model = PackedLSTM(50, 64, 2, batch_first=True, bidirectional=True, dropout=0.3, rec_dropout=0.25)
    batch = padded_batch(LENGTHS, 50, batch_first=True)
    return Case(
        name="stanza_recurrent_dropout",
        model=model,
        run=lambda: model(batch, LENGTHS)[0].data.sum(),
        real_rows=None,
        shows="With recurrent dropout Stanza runs Python loops of `LSTMCell`, one call a step, on a batch that "
        f"shrinks as sequences end: {4 * sum(LENGTHS)} rows, which is four cells times the {sum(LENGTHS)} real steps. "
        "A cell's call tells nothing of sequences that ended earlier, so here rnncost counts what ran exactly "
        "(backward too), but reports no saving and cannot say what was wasted.",
    )


def flair_tagger() -> Case:
    from flair.data import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Dictionary,
        Sentence,
    )
    from flair.embeddings import CharacterEmbeddings  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from flair.models import SequenceTagger  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from flair.training_utils import store_embeddings  # type: ignore[import-not-found,import-untyped,unused-ignore]

    letters, tags = Dictionary(add_unk=True), Dictionary(add_unk=False)
    for word, tag in (token for sentence in SENTENCES for token in sentence):
        tags.add_item(tag)
        for letter in word:
            letters.add_item(letter)
    sentences = [Sentence([word for word, _ in sentence]) for sentence in SENTENCES]
    for sentence, tagged in zip(sentences, SENTENCES, strict=True):
        for token, (_, tag) in zip(sentence, tagged, strict=True):
            token.add_label("upos", tag)
    model = SequenceTagger(CharacterEmbeddings(letters), tag_dictionary=tags, tag_type="upos")

    def run() -> Tensor:
        store_embeddings(sentences, "none")  # Flair's trainer does this after each batch
        loss: Tensor = model.forward_loss(sentences)[0]
        return loss

    return Case(
        name="flair_tagger",
        model=model,
        run=run,
        real_rows=LETTERS + WORDS,
        shows="Flair's tagger with a CRF and character embeddings, random weights, one step of training. "
        "The character LSTM is called once for each sentence, with that sentence's words packed; then the tagger's "
        "own LSTM runs once, packed. The model is never called itself (`forward_loss` is): hooks lie on the LSTMs.",
    )


def pyg_lstm_aggregation() -> Case:
    from torch_geometric.datasets import KarateClub  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from torch_geometric.nn import SAGEConv  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from torch_geometric.nn.aggr import LSTMAggregation  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from torch_geometric.utils import sort_edge_index  # type: ignore[import-not-found,import-untyped,unused-ignore]

    graph = KarateClub()[0]
    edges = sort_edge_index(graph.edge_index, sort_by_row=False)
    degrees = torch.bincount(edges[1]).tolist()
    model = SAGEConv(graph.num_features, 16, aggr=LSTMAggregation(graph.num_features, graph.num_features))
    found = rnncost.contamination(model.aggr_module.lstm, degrees)
    changed = max(each.sequences for each in found.differences if each.what == "hidden")
    return Case(
        name="pyg_lstm_aggregation",
        model=model,
        run=lambda: model(graph.x, edges).sum(),
        real_rows=len(edges[1]),
        options={"infer_lengths": True},
        shows="GraphSAGE with PyG's LSTM aggregation on the karate club, a real graph that PyG ships. The neighbours "
        f"of {len(degrees)} nodes ({min(degrees)} to {max(degrees)} each, {sum(degrees)} in all) become one padded "
        "rectangle although their numbers are known; `infer_lengths=True` reads them off the zeros. The aggregation "
        "returns the last step of the rectangle, which for most nodes is padding: `rnncost.contamination` finds the "
        f"final states of {changed} nodes changed by it.",
    )


def silero_vad() -> Case:
    from silero_vad import load_silero_vad  # type: ignore[import-not-found,import-untyped,unused-ignore]

    model = load_silero_vad()
    chunks = 0.1 * torch.randn(20, 1, 512)

    def run() -> Tensor:
        model.reset_states()
        return torch.stack([model(chunk, 16_000) for chunk in chunks])

    return Case(
        name="silero_vad",
        model=model,
        run=run,
        real_rows=0,
        training=False,
        uncounted=("_model.decoder.rnn", "_model_8k.decoder.rnn"),
        shows="Silero's voice activity detector as it is shipped, trained and scripted, on 20 chunks of noise. Its "
        "LSTM cells run inside TorchScript, where no hook fires; rnncost names both (the second is that of 8 kHz "
        "audio, which did not run), warns, and marks the totals partial. The dispatched MACs are the products of "
        "the cell: 4 · 128 · (128 + 128) a chunk.",
    )


def sru_packed() -> Case:
    from sru import SRU  # type: ignore[import-not-found,import-untyped,unused-ignore]

    model, batch = SRU(64, 96, num_layers=3, bidirectional=True), packed_batch(LENGTHS, 64, enforce_sorted=True)
    return Case(
        name="sru_packed",
        model=model,
        run=lambda: model(batch)[0].data.sum(),
        real_rows=sum(LENGTHS),
        training=False,
        shows="SRU takes a `PackedSequence`, unpacks it and computes the whole rectangle, so packing saves nothing: "
        "the reader says so, and the lengths that came with the batch tell how much of the work is padding.",
    )


def torchrl_lstm() -> Case:
    from torchrl.modules import LSTM  # type: ignore[import-not-found,import-untyped,unused-ignore]

    model, batch = LSTM(64, 96, num_layers=2, batch_first=True), padded_batch(LENGTHS, 64, batch_first=True)
    return Case(
        name="torchrl_lstm",
        model=model,
        run=lambda: model(batch)[0].sum(),
        real_rows=sum(LENGTHS),
        training=False,
        options={"lengths": LENGTHS},
        shows="TorchRL's LSTM is a Python loop over torch's weights that runs no recurrent kernel and takes no packed "
        "input. A reader describes it; the true lengths, given with `lengths=`, tell what the rectangle wastes.",
    )


CASES = (
    stanza_tagger,
    stanza_recurrent_dropout,
    flair_tagger,
    pyg_lstm_aggregation,
    silero_vad,
    sru_packed,
    torchrl_lstm,
)


if __name__ == "__main__":
    report_on(CASES)
