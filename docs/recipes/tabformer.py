"""python tabformer.py TRAIN OUT N SEED: rows of a table with a column of text, by REaLTabFormer."""

import json
import sys
from pathlib import Path
from tempfile import gettempdir

import pandas as pd
from realtabformer import REaLTabFormer
from transformers import GPT2Config

train, out, n, seed = sys.argv[1:]
here = gettempdir()  # private, and removed: by default it saves beside the spec
with Path(train).open(encoding="utf-8") as file:
    rows = [json.loads(line) for line in file]
table = pd.DataFrame({"text": [row["text"] for row in rows]})
table["label"] = ["|".join(row["labels"]) for row in rows]
model = REaLTabFormer(
    model_type="tabular",
    tabular_config=GPT2Config(n_embd=128, n_layer=2, n_head=4),
    checkpoints_dir=f"{here}/checkpoints",
    samples_save_dir=f"{here}/samples",
    full_save_dir=f"{here}/full",
    epochs=20,
    random_state=int(seed),
    use_cpu=True,
    report_to="none",
)
model.fit(table, device="cpu", n_critic=0)
made = model.sample(n_samples=int(n), device="cpu")
with Path(out).open("w", encoding="utf-8") as file:
    for text, label in zip(made["text"], made["label"], strict=True):
        file.write(json.dumps({"text": text, "labels": label.split("|")}) + "\n")
