"""python markov.py TRAIN OUT N SEED: sentences of a Markov chain of words, by markovify."""

import json
import random
import sys
from pathlib import Path

import markovify

train, out, n, seed = sys.argv[1:]
random.seed(int(seed))
with Path(train).open(encoding="utf-8") as file:
    texts = [" ".join(json.loads(line)["text"].split()) for line in file]
chain = markovify.NewlineText("\n".join(texts), well_formed=False)  # brackets and quotes stay
with Path(out).open("w", encoding="utf-8") as file:
    for _ in range(int(n)):  # most are new combinations; where none comes, whatever comes
        text = chain.make_sentence(tries=100) or chain.make_sentence(test_output=False)
        file.write(json.dumps({"text": text}) + "\n")
