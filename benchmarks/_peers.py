"""Other tools' own functions on the files of `check.py`: run by a Python that has them.

    python benchmarks/_peers.py NAME

`check.py` starts this once per peer and asks by lines: a folder comes in by stdin, a JSON object
goes out by stdout. The folder holds texts.json and words.json (members, holdout, release) and
vectors.npz: those and the reference by the encoder static, and few principal components for who
wants few columns. Only what the package computes is timed, in CPU seconds, without its import.

Nothing here imports synthleak: peers and we need not agree on a single dependency.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Answer = dict[str, Any]
PACKAGES = {
    "sdmetrics": "sdmetrics",
    "mostlyai": "mostlyai-qa",
    "nemo": "nemo-safe-synthesizer",
    "domias": "domias",
    "canary": "nltk",
}


class Files:
    """What `check.py` laid out for one release."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts: dict[str, list[str]] = json.loads((folder / "texts.json").read_text("utf-8"))
        self.words: dict[str, list[list[str]]] = json.loads(
            (folder / "words.json").read_text("utf-8")
        )
        with np.load(folder / "vectors.npz") as arrays:
            self.vectors = dict(arrays)

    def frames(self) -> list[Any]:
        """Return members, holdout and release as tables of one column."""
        import pandas as pd

        return [pd.DataFrame({"text": self.texts[k]}) for k in ("members", "holdout", "release")]


def sdmetrics() -> Callable[[Files], Answer]:
    """SDMetrics reads numbers and categories only: principal components stand for texts."""
    import pandas as pd
    from sdmetrics.single_table import DCROverfittingProtection

    def ask(files: Files) -> Answer:
        parts = [files.vectors[f"{k}_16"] for k in ("members", "release", "holdout")]
        names = [f"c{number}" for number in range(parts[0].shape[1])]
        members, release, holdout = (pd.DataFrame(part, columns=names) for part in parts)
        columns = {name: {"sdtype": "numerical"} for name in names}
        metadata = {"tables": {"t": {"columns": columns}}}
        began = time.process_time()
        made = DCROverfittingProtection.compute_breakdown(
            {"t": members}, {"t": release}, holdout, metadata, "t"
        )
        spent = time.process_time() - began
        figure = made["synthetic_data_percentages"]["closer_to_training"]
        return {"figure": figure, "score": made["score"], "cpu_seconds": spent}

    return ask


def mostlyai() -> Callable[[Files], Answer]:
    """mostlyai-qa, twice: its distances of the given vectors, and its report on a column of texts.

    The report embeds with a model that the package carries, keeps four principal components, and
    puts every synthetic text that is neither a member nor held out at one place.
    """
    from mostlyai import qa
    from mostlyai.qa import _distances as own
    from mostlyai.qa._embeddings import encode_data

    def given(release: np.ndarray, members: np.ndarray, holdout: np.ndarray) -> Answer:
        np.random.seed(0)  # noqa: NPY002
        began = time.process_time()
        found = own.calculate_distances(syn_embeds=release, trn_embeds=members, hol_embeds=holdout)
        figure = own.calculate_dcr_share(found["dcr_syn_trn"], found["dcr_syn_hol"])
        spent = time.process_time() - began
        np.random.seed(0)  # noqa: NPY002
        both = np.vstack([members, holdout])
        groups = own.split_columns_into_correlated_groups(both, k=3)
        groups += own.split_columns_into_random_groups(both, k=3)
        return {"figure": figure, "groups": groups, "cpu_seconds": spent}

    def ask(files: Files) -> Answer:
        members, holdout, release = files.frames()
        began = time.process_time()
        _, metrics = qa.report(
            syn_tgt_data=release,
            trn_tgt_data=members,
            hol_tgt_data=holdout,
            report_path=files.folder / "report.html",
        )
        spent = time.process_time() - began
        embedded = encode_data(syn_data=release, trn_data=members, hol_data=holdout)
        return given(*(files.vectors[k] for k in ("release", "members", "holdout"))) | {
            "report": {
                "figure": metrics.distances.dcr_share,
                "identical_to_members": metrics.distances.ims_training,
                "identical_to_holdout": metrics.distances.ims_holdout,
                "cpu_seconds": spent,
            },
            "report_vectors": [part.tolist() for part in embedded],
        }

    return ask


def nemo() -> Callable[[Files], Answer]:
    """NeMo's membership inference, its sentence transformer replaced by the given vectors."""
    import torch
    from nemo_safe_synthesizer.evaluation.components import (
        membership_inference_protection as module,
    )

    given: dict[str, np.ndarray] = {}

    class Given:
        """What the module loads by name from a hub: here a look-up."""

        def __init__(self, name: str) -> None:
            self.name = name

        def encode(self, texts: Sequence[str], **options: Any) -> Any:
            return torch.tensor(np.stack([given[text] for text in texts]))

    module.SentenceTransformer = Given

    def ask(files: Files) -> Answer:
        given.clear()
        for part, texts in files.texts.items():
            given.update(zip(texts, files.vectors[part].astype(np.float32), strict=True))
        members, holdout, release = files.frames()
        began = time.process_time()
        score, *_ = module.MembershipInferenceProtection.mia(members, release, holdout)
        spent = time.process_time() - began
        if score.raw_score is None:
            raise RuntimeError(score.notes)
        return {
            "figure": score.raw_score,
            "score": score.score,
            "grade": score.grade.value,
            "cpu_seconds": spent,
        }

    return ask


def domias() -> Callable[[Files], Answer]:
    """DOMIAS with its kernel densities, by the functions that `evaluate_performance` is made of.

    That itself trains a generator, and fails in a transport distance if pykeops is not there.
    """
    from domias.baselines import compute_metrics_baseline, kde_baseline

    def ask(files: Files) -> Answer:
        members, holdout, release, reference = (
            files.vectors[f"{k}_32"] for k in ("members", "holdout", "release", "reference")
        )
        inside = np.arange(len(members) + len(holdout)) < len(members)
        began = time.process_time()
        _, scores = kde_baseline(np.vstack([members, holdout]), release, reference)
        _, figure = compute_metrics_baseline(scores, inside)
        spent = time.process_time() - began
        return {"figure": figure, "scores": scores.tolist(), "cpu_seconds": spent}

    return ask


def canary() -> Callable[[Files], Answer]:
    """Canary's bigrams by the model that its authors' scorer fits, NLTK's Laplace.

    NLTK's tokenizer loads its rules from elsewhere, so that texts come split into words.
    """
    from nltk.lm import Laplace
    from nltk.lm.preprocessing import pad_both_ends, padded_everygram_pipeline
    from nltk.util import ngrams

    def ask(files: Files) -> Answer:
        words = files.words
        began = time.process_time()
        model = Laplace(2)
        model.fit(*padded_everygram_pipeline(2, words["release"]))
        scores = [
            sum(
                np.log(model.score(gram[-1], gram[:-1]))
                for gram in ngrams(pad_both_ends(text, n=2), 2)
            )
            for text in [*words["members"], *words["holdout"]]
        ]
        return {"scores": scores, "cpu_seconds": time.process_time() - began}

    return ask


def main() -> None:
    name, answers = sys.argv[1], sys.stdout
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(sys.stderr):
        began = time.process_time()
        ask = globals()[name]()
        first: Answer = {
            "package": PACKAGES[name],
            "version": importlib.metadata.version(PACKAGES[name]),
            "import_cpu_seconds": round(time.process_time() - began, 2),
        }
        print(json.dumps(first), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(ask(Files(Path(line.strip())))), file=answers, flush=True)


if __name__ == "__main__":
    main()
