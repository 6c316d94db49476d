"""python invisibleink.py TRAIN OUT N EPSILON DELTA SEED: prompted text, by InvisibleInk.

It wants a chat model, as a folder `smollm2` beside the spec.
"""

import json
import sys
from pathlib import Path

import invink

train, out, n, epsilon, delta, seed = sys.argv[1:]
with Path(train).open(encoding="utf-8") as file:
    texts = [json.loads(line)["text"] for line in file]
made = invink.generate(
    texts,
    "smollm2",
    "Short messages that patients write about their medicines.",
    pub_prompt="{} Write one such message.",
    prv_prompt="{} Write one such message, much like this one: {}",
    epsilon=float(epsilon),
    delta=float(delta),
    num=int(n),
    batch_size=6,  # five records and the public prompt: 8 texts use all 40 records
    max_toks=16,  # a number that comes from no private text
    random_seed=int(seed),
    device_map=-1,
    dtype="float32",
)
with Path(out).open("w", encoding="utf-8") as file:
    for text in made.texts:
        file.write(json.dumps({"text": text}) + "\n")
