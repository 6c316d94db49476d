"""From requests to releases by steering: the fleets of `epsvec` (docs/method.md §5.2).

The texts of a class are written once for all releases of a public side: they depend on the
description, the class and the settings alone (docs/design/claim-epsvec.md). A group is one class of
one instance: all its texts continue the same exemplar prompt. Bounds and means come from generated
texts alone; private texts enter through votes and clipped sums, which are noised, and nowhere else.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.errors import GeneratorError
from synthleak.core.seeds import derive, digest, stream
from synthleak.corpus.corpus import Labels, Record
from synthleak.encoders.encoder import Encoder, Vectors
from synthleak.releases.generator import Floats
from synthleak.releases.lm.fleet.sampling import Tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of, retry_halved
from synthleak.releases.lm.generator import timed
from synthleak.releases.lm.prompts import described, few_shot, filled, usual_lengths
from synthleak.releases.lm.text_sampling import TextSampler, distinct
from synthleak.releases.lm.token_sampling import SteeringVectors, decoder_layers, plan_sampling
from synthleak.releases.lm.votes import count_votes, noised, ranked, vectors_of
from synthleak.releases.release import Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.generators.epsvec import EpsVec

log = logging.getLogger("synthleak.releases")


@dataclass(frozen=True)
class ClassTexts:
    """The texts of one class: those that may become exemplars, and those that means are over."""

    candidates: tuple[str, ...] = field(repr=False)
    references: tuple[str, ...] = field(repr=False)


def identity_of(generator: EpsVec) -> str:
    """Return the hash of the settings that public texts depend on."""
    return digest(generator.identity())


def choose_exemplars(
    request: Request,
    classes: Sequence[Labels],
    texts: Mapping[Labels, ClassTexts],
    vectors: Mapping[Labels, Vectors],
    encoder: Encoder,
    *,
    exemplars: int,
    sigma: float,
) -> dict[Labels, tuple[str, ...]]:
    """Return the exemplars of each class: the candidates with most noised votes (docs/method.md
    §5.2).

    `classes` were drawn from the public prior, so the bins that get noise are public too.
    """
    rng = stream(request.seed, "votes")
    private = vectors_of(encoder, [record.text for record in request.records], request.store)
    chosen = {}
    for labels in classes:
        of_class = np.array([record.labels == labels for record in request.records], dtype=bool)
        counts = noised(count_votes(private[of_class], vectors[labels]), sigma, rng)
        best = ranked(counts, rng)[:exemplars]
        chosen[labels] = tuple(texts[labels].candidates[position] for position in best)
    return chosen


@dataclass(frozen=True)
class Groups:
    """The classes of all instances of a fleet, one after another, with their exemplar prompts."""

    instance: NDArray[np.int64]
    labels: tuple[Labels, ...]
    prompts: tuple[Tokens, ...]

    def numbers(self) -> dict[tuple[int, Labels], int]:
        pairs = zip(self.instance.tolist(), self.labels, strict=True)
        return {pair: number for number, pair in enumerate(pairs)}


def _add_noise(total: Tensor, owner: Tensor, scale: Tensor, requests: Sequence[Request]) -> None:
    """Add each release's own noise to its sums; `scale[i, l]` is its standard deviation."""
    if not bool((scale > 0).any()):
        return
    owners = owner.cpu().numpy()
    for number, request in enumerate(requests):
        groups = torch.from_numpy(np.flatnonzero(owners == number)).to(total.device)
        noise = torch.from_numpy(noise_of(request.seed, (len(groups), *total.shape[1:])))
        total[groups] += noise.to(total) * scale[number].to(total.dtype)[:, None]


@dataclass(frozen=True)
class PromptedText:
    """A prompt and the text that continues it; the mean is over the tokens of the text.

    `max_tokens` is how many tokens a text may have: what is longer was cut.
    """

    prompt: Tokens
    text: Tokens
    max_tokens: int


AT_ONCE = {"cuda": 512, "cpu": 16}
"""Texts that are read together: enough for the device, and few where a batch is filled up."""
BLOCK = 16
"""Widths are multiples of this: few shapes, and so few batches to fill up."""


class _Enough(Exception):  # noqa: N818 - nothing went wrong
    """The last layer that is wanted has been passed."""


def _whole(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK


MARGIN = 1 - 2**-18
"""What a clipped difference is lowered by, so that rounding cannot lift it above its bound."""


@dataclass(frozen=True)
class ReferenceStatistics:
    """What generated texts say: the mean of each group, and per instance how far texts scatter.

    `means[g, l]` is a vector; `spread[i, l]` the root mean square distance of a text from the mean
    of its group, `norms[i, l]` the root mean square norm of a state.
    """

    means: Tensor
    spread: Tensor
    norms: Tensor


Grouped = tuple[Sequence[PromptedText], NDArray[np.int64]]
"""Texts, and the group of each."""


@dataclass(frozen=True)
class Reader:
    """Reads texts up to the last of some layers, `tokens_at_once` together."""

    shared: SharedBackbone
    layers: Sequence[int]
    tokens_at_once: int

    def mean_states(
        self, texts: Sequence[PromptedText]
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Yield (rows, states [rows, layers, d]) until every text was read.

        What a text's states are must not depend on how many or how long the others are, or a record
        would move the states of others by rounding. So texts are read in shapes that its prompt and
        the room for a text decide, both public; a batch that is not full is filled up. Padding
        stands on the right, where a decoder that looks back never sees it.
        """
        context = self.shared.backbone.context
        widths = np.array(
            [min(context, _whole(len(t.prompt) + t.max_tokens)) for t in texts], dtype=np.int64
        )
        for width in np.unique(widths)[::-1].tolist():
            waiting = np.flatnonzero(widths == width)
            most = AT_ONCE.get(self.shared.device.type, 64)
            height = max(1, min(most, self.tokens_at_once // width))
            while len(waiting):
                some = [texts[row] for row in waiting[:height]]
                states = retry_halved(partial(self._read, some, width), height, "texts")
                height = len(states)
                rows, waiting = waiting[:height], waiting[height:]
                yield rows, states[: len(rows)]

    def _read(self, texts: Sequence[PromptedText], width: int, height: int) -> Tensor:
        """Return the states of the first `height` texts, filled up with empty ones."""
        tokens = np.zeros((height, width), dtype=np.int64)
        weight = np.zeros((height, width), dtype=np.float64)
        for row, item in enumerate(texts[:height]):
            first, end = len(item.prompt), len(item.prompt) + len(item.text)
            tokens[row, :end] = item.prompt + item.text
            weight[row, first:end] = 1 / max(len(item.text), 1)
        device = self.shared.device
        share = torch.from_numpy(weight).to(device)
        with torch.no_grad(), self._taking(share) as means, suppress(_Enough):
            self.shared.backbone.model.base_model(
                input_ids=torch.from_numpy(tokens).to(device), use_cache=False
            )
        return torch.stack([means[layer] for layer in self.layers], dim=1)

    @contextmanager
    def _taking(self, share: Tensor) -> Iterator[dict[int, Tensor]]:
        """Take the weighted mean of what comes out of each layer, and stop after the last."""
        means: dict[int, Tensor] = {}

        def take(layer: int) -> Any:
            def hook(module: Any, inputs: Any, output: Any) -> None:
                states = output[0] if isinstance(output, tuple) else output
                wide = states.double() if states.dtype == torch.float64 else states.float()
                means[layer] = torch.einsum("btd,bt->bd", wide, share.to(wide.dtype))
                if layer == max(self.layers):
                    raise _Enough

            return hook

        modules = decoder_layers(self.shared)
        with ExitStack() as hooks:
            for layer in self.layers:
                hooks.callback(modules[layer].register_forward_hook(take(layer)).remove)
            yield means

    def statistics(self, generated: Grouped, instance: NDArray[np.int64]) -> ReferenceStatistics:
        """Read the generated texts; `instance[g]` says whose group g is.

        Every group has equally many texts.
        """
        (texts, group), layers = generated, len(self.layers)
        groups, instances = len(instance), int(instance.max()) + 1
        each = len(texts) // groups
        hidden = int(self.shared.backbone.model.config.hidden_size)
        device = self.shared.device
        means = torch.zeros(groups, layers, hidden, dtype=torch.float64, device=device)
        squares = torch.zeros(groups, layers, dtype=torch.float64, device=device)
        for rows, states in self.mean_states(texts):
            where = torch.from_numpy(group[rows]).to(device)
            means.index_add_(0, where, states.double() / each)
            squares.index_add_(0, where, states.double().square().sum(dim=2))
        owner = torch.from_numpy(instance).to(device)
        within = squares - each * means.square().sum(dim=2)
        of_instance = torch.bincount(owner, minlength=instances).double()[:, None]
        zero = torch.zeros(instances, layers, dtype=torch.float64, device=device)
        free = of_instance * max(each - 1, 1)
        return ReferenceStatistics(
            means=means.float() if self.shared.backbone.head.dtype != torch.float64 else means,
            spread=(zero.index_add(0, owner, within.clamp(min=0)) / free).sqrt(),
            norms=(zero.index_add(0, owner, squares) / (of_instance * each)).sqrt(),
        )

    def clipped_sums(self, private: Grouped, means: Tensor, bounds: Tensor | None) -> Tensor:
        """Return the sum over the private texts of each group of their clipped difference to its
        mean.

        `bounds[g, l]` is the largest norm of one difference, none for no bound. One text moves the
        sum of its own group by at most that, and no other: sums are in double precision, so that
        what the others add up to does not depend on it.
        """
        total = torch.zeros_like(means, dtype=torch.float64)
        for _, where, difference in self._differences(private, means, bounds):
            total.index_add_(0, where, difference)
        return total

    def projections(
        self, asked: Grouped, means: Tensor, bounds: Tensor | None, sums: Tensor, spread: Tensor
    ) -> NDArray[np.float64]:
        """Return each text's clipped difference times the noised sum of its group, over all layers.

        `sums[g, l]` are the sums, and `spread[g, l]` the unit that a layer's noise is counted in.
        """
        projected = np.zeros(len(asked[0]))
        for rows, where, difference in self._differences(asked, means, bounds):
            units = spread[where].clamp(min=1e-30).square()
            products = (difference * sums[where]).sum(dim=2) / units
            projected[rows] = products.sum(dim=1).cpu().numpy()
        return projected

    def _differences(
        self, grouped: Grouped, means: Tensor, bounds: Tensor | None
    ) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor]]:
        """Yield rows, their groups, and the clipped differences `[row, layer, d]` to the means."""
        texts, group = grouped
        for rows, states in self.mean_states(texts):
            where = torch.from_numpy(group[rows]).to(means.device)
            difference = states - means[where]
            if bounds is not None:
                norms = torch.linalg.vector_norm(difference, dim=2, dtype=torch.float64)
                share = (bounds[where] * MARGIN / norms.clamp(min=1e-30)).clamp(max=1)
                difference = difference * share.to(difference.dtype)[:, :, None]
            yield rows, where, difference.double()


def noise_of(seed: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the standard noise of one release: from its own seed, the same on every device."""
    return stream(seed, "vectors").standard_normal(shape, dtype=np.float32)


def unit_vectors(total: Tensor) -> Tensor:
    """Bring every vector to length 1, which removes the number of texts that it sums.

    A group without any private text and without noise has no direction: it stays zero.
    """
    norms = torch.linalg.vector_norm(total, dim=-1, keepdim=True)
    return torch.where(norms > 0, total / norms.clamp(min=1e-30), torch.zeros_like(total))


PLACES = 6
"""Decimals of a projection that are kept: those after them are the rounding of a batch."""


def steered(
    generator: EpsVec, requests: Sequence[Request], records: Sequence[Record] = ()
) -> list[tuple[list[Synthetic], Floats]]:
    """Return a release per request, and what its vectors say of records (docs/method.md §16).

    All requests are one cell's: they share N, ε, size and public side.
    """
    with timed("loading the backbone"):
        steering = Steering(generator, requests)
    with timed("writing public texts"):
        texts = steering.public_texts()
    with timed("votes"):
        groups = steering.groups(texts)
    with timed("reading texts for the vectors"):
        vectors, scores = steering.vectors(groups, texts, records)
    with timed("sampling the releases", 0, 1):
        return list(zip(steering.sampled(groups, vectors), scores, strict=True))


class Steering:
    """The steps of one fleet: from texts of its public side to steered releases."""

    def __init__(self, generator: EpsVec, requests: Sequence[Request]) -> None:
        self._generator, self._requests = generator, requests
        self._public = requests[0].public
        self._shared = generator.shared_backbone()
        self._sampler = TextSampler(self._shared, attempts=generator.attempts)
        self._tokenizer = self._sampler.tokenizer
        if self._tokenizer.chat_frame is None:
            log.warning(
                "the backbone %r has no chat template: candidates are begun plainly, and neither"
                " prompt nor styles are used",
                generator.backbone,
            )
        self._how = generator.decoding(self._tokenizer.ends(one_line=True))
        self.classes = [generator.classes(request) for request in requests]

    def public_texts(self) -> Mapping[Labels, ClassTexts]:
        """Return the texts of the classes of all instances; missing ones are written now."""
        generator, public = self._generator, self._public
        empty: dict[Labels, ClassTexts] = {}
        identity = identity_of(generator)
        known = public.remember(f"written for {identity}", lambda: empty)
        missing = sorted({labels for drawn in self.classes for labels in drawn} - set(known))
        each = generator.candidates + generator.references
        prompts, owners = [], []
        for labels in missing:
            seed = derive("written", identity, digest(public.key, public.description, labels))
            prompts += self._asked(labels, seed, each)
            owners.append((seed, each))
        different, of = distinct(prompts)
        chat = self._tokenizer.chat_frame is not None
        encode = self._tokenizer.encode_requests if chat else self._tokenizer.encode_plain
        named = [labels for labels in missing for _ in range(each)]
        texts = self._sampler.sample(
            encode(different), of, owners, self._how, one_line=True, quoted=chat, labels=named
        )
        for number, labels in enumerate(missing):
            written = tuple(texts[number * each : (number + 1) * each])
            cut = generator.candidates
            known[labels] = ClassTexts(written[:cut], written[cut:])
        return known

    def _asked(self, labels: Labels, seed: int, count: int) -> list[str]:
        """Return the prompts for `count` texts of a class."""
        public = self._public
        if self._tokenizer.chat_frame is None:
            return [few_shot(described(public), labels, ())] * count
        rng = stream(seed, "styles")
        styles = rng.choice(self._generator.styles, count)
        lengths = rng.choice(usual_lengths(public), count)
        return filled(self._generator.prompt, public, [labels] * count, styles, lengths)

    def groups(self, texts: Mapping[Labels, ClassTexts]) -> Groups:
        """Let the private records of each request choose its exemplars, and write its prompts."""
        generator = self._generator
        vectors = {
            labels: generator.encoder.encode(texts[labels].candidates)
            for labels in {labels for drawn in self.classes for labels in drawn}
        }
        instance, names, prompts = [], [], []
        for number, request in enumerate(self._requests):
            drawn = sorted(set(self.classes[number]))
            shown = choose_exemplars(
                request,
                drawn,
                texts,
                vectors,
                generator.encoder,
                exemplars=generator.exemplars,
                sigma=generator.vote_sigma(request),
            )
            instance += [number] * len(drawn)
            names += drawn
            prompts += [few_shot(described(self._public), name, shown[name]) for name in drawn]
        tokens = self._tokenizer.encode_plain(prompts)
        return Groups(np.array(instance), tuple(names), tuple(tokens))

    def vectors(
        self, groups: Groups, texts: Mapping[Labels, ClassTexts], records: Sequence[Record] = ()
    ) -> tuple[SteeringVectors, Floats]:
        """Return the vectors of every group, from its clipped sum, noised.

        With them come the projections of the records on the noised sums, `[request, record, 1]`.
        """
        generator, shared, request = self._generator, self._shared, self._requests[0]
        layers = generator.layers_of(int(shared.backbone.model.config.num_hidden_layers))
        prompt = max(map(len, groups.prompts))
        longest = prompt + generator.max_tokens
        if longest > shared.backbone.context:
            raise GeneratorError(
                f"a prompt with {generator.exemplars} exemplars and a text takes {longest} tokens"
                f" and the backbone {generator.backbone!r} reads {shared.backbone.context}",
                remedy="use a smaller max_tokens",
            )
        memory = memory_of(shared.device)
        at_once = plan_sampling(shared.shape(1), memory, prompt, generator.max_tokens).tokens
        reader = Reader(shared, layers, at_once)
        generated = self._prompted(groups, [texts[name].references for name in groups.labels])
        reference = reader.statistics(generated, groups.instance)
        instance = owner = torch.from_numpy(groups.instance).to(shared.device)
        bounds = generator.clip * reference.spread
        limit = None if math.isinf(request.epsilon) else bounds[instance]
        private = self._prompted(groups, self._private(groups))
        total = reader.clipped_sums(private, reference.means, limit)
        if generator.scope == "corpus":
            count = len(self._requests)
            total = torch.zeros_like(total[:count]).index_add_(0, instance, total)
            owner = torch.arange(count, device=shared.device)
        scale = bounds * generator.vector_sigma(request, len(layers))
        _add_noise(total, owner, scale, self._requests)
        sums = total if generator.scope == "class" else total[instance]
        rows, asked = self._asked_about(groups, records)
        values = reader.projections(
            self._prompted(groups, asked), reference.means, limit, sums, reference.spread[instance]
        )
        scores = np.zeros((len(self._requests), len(records), 1))
        whose = np.repeat(groups.instance, [len(of_group) for of_group in rows])
        scores[whose, [row for of_group in rows for row in of_group], 0] = values.round(PLACES)
        units = reference.norms / generator.part if generator.unit == "auto" else generator.unit
        length = generator.strength(request) * units * torch.ones_like(reference.norms)
        vectors = unit_vectors(total) * length[owner][:, :, None].to(total.dtype)
        if generator.scope == "corpus":
            vectors = vectors[instance]
        return SteeringVectors(layers, vectors.cpu()), scores

    def _asked_about(
        self, groups: Groups, records: Sequence[Record]
    ) -> tuple[list[list[int]], list[list[str]]]:
        """Return the places and texts of the records of each group's class."""
        rows = [
            [row for row, record in enumerate(records) if record.labels == labels]
            for labels in groups.labels
        ]
        return rows, [[records[row].text for row in of_group] for of_group in rows]

    def _private(self, groups: Groups) -> list[list[str]]:
        """Return the private texts of each group; a class that is not generated has no group."""
        numbers = groups.numbers()
        texts_of: list[list[str]] = [[] for _ in groups.labels]
        for number, request in enumerate(self._requests):
            for record in request.records:
                group = numbers.get((number, record.labels))
                if group is not None:
                    texts_of[group].append(record.text)
        return texts_of

    def _prompted(
        self, groups: Groups, texts: Sequence[Sequence[str]]
    ) -> tuple[list[PromptedText], NDArray[np.int64]]:
        """Put texts after the prompt of their group, on one line and cut to the same limit."""
        most = self._generator.max_tokens
        different = sorted({text for of_group in texts for text in of_group})
        spelled = self._tokenizer.encode([f" {' '.join(text.split())}" for text in different])
        tokens = {text: row[:most] for text, row in zip(different, spelled, strict=True)}
        prompted = [
            PromptedText(prompt, tokens[text], most)
            for prompt, of_group in zip(groups.prompts, texts, strict=True)
            for text in of_group
        ]
        return prompted, np.repeat(np.arange(len(texts)), [len(of_group) for of_group in texts])

    def sampled(self, groups: Groups, vectors: SteeringVectors) -> list[list[Synthetic]]:
        """Return the releases, each text steered by the vector of its group."""
        numbers = groups.numbers()
        rows = [(number, labels) for number, drawn in enumerate(self.classes) for labels in drawn]
        texts = self._sampler.sample(
            groups.prompts,
            [numbers[row] for row in rows],
            [(derive(request.seed, "release"), request.size) for request in self._requests],
            self._how,
            one_line=True,
            labels=[labels for _, labels in rows],
            steering=vectors,
        )
        releases: list[list[Synthetic]] = [[] for _ in self._requests]
        for (number, labels), text in zip(rows, texts, strict=True):
            releases[number].append(Synthetic(text, labels))
        return releases
