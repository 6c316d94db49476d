"""python lstm.py TRAIN OUT N SEED: an LSTM trained from scratch, by the engine of MOSTLY AI."""

import json
import sys
from pathlib import Path

import pandas as pd
from mostlyai.engine import LanguageModel

train, out, n, seed = sys.argv[1:]
with Path(train).open(encoding="utf-8") as file:
    rows = [json.loads(line) for line in file]
table = pd.DataFrame({"text": [row["text"] for row in rows]})
model = LanguageModel(
    tgt_encoding_types={"text": "LANGUAGE_TEXT"},
    model="MOSTLY_AI/LSTMFromScratch-3m",
    device="cpu",
    random_state=int(seed),
)
model.fit(table)
made = model.sample(n_samples=int(n))
with Path(out).open("w", encoding="utf-8") as file:
    for text in made["text"]:
        file.write(json.dumps({"text": text}) + "\n")
