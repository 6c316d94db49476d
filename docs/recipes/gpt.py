"""python gpt.py TRAIN OUT N EPSILON DELTA SEED characters|bytes: a small GPT-2, by Opacus.

Its symbols are the characters of TRAIN, or the 256 bytes.
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from opacus import PrivacyEngine
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH, BATCH, EPOCHS = 96, 25, 3
train, out, n, epsilon, delta, seed, symbols = sys.argv[1:]
torch.manual_seed(int(seed))
warnings.simplefilter("ignore")
with Path(train).open(encoding="utf-8") as file:
    texts = [json.loads(line)["text"] for line in file]

if symbols == "bytes":
    texts = [text.encode().decode("latin-1") for text in texts]
    alphabet = [chr(byte) for byte in range(256)]
else:
    alphabet = sorted(set("".join(texts)))
number = {symbol: place for place, symbol in enumerate(alphabet)}
END = len(alphabet)  # begins a text, and fills what is left after it
rows = torch.full((len(texts), LENGTH + 1), END)
for row, text in zip(rows, texts, strict=True):
    known = [number[symbol] for symbol in text[:LENGTH]]
    row[1 : len(known) + 1] = torch.tensor(known)

config = GPT2Config(
    vocab_size=END + 1, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False,
    bos_token_id=END, eos_token_id=END, pad_token_id=END,
)  # fmt: skip
model = GPT2LMHeadModel(config)
private, optimizer, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(
    module=model.train(),
    optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3),
    data_loader=DataLoader(rows, batch_size=BATCH),
    target_epsilon=float(epsilon),
    target_delta=float(delta),
    epochs=EPOCHS,
    max_grad_norm=1.0,
)
for _ in range(EPOCHS):
    for batch in loader:
        places = torch.arange(LENGTH).expand(len(batch), -1)  # Opacus wants them for every record
        logits = private(input_ids=batch[:, :-1], position_ids=places).logits
        cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

begin = torch.full((int(n), 1), END)
made = model.eval().generate(
    begin, attention_mask=torch.ones_like(begin), do_sample=True, top_k=0, max_length=LENGTH
)
with Path(out).open("w", encoding="utf-8") as file:
    for row in made.tolist():
        text = "".join(alphabet[place] for place in row if place != END)
        if symbols == "bytes":
            text = text.encode("latin-1").decode(errors="replace")
        file.write(json.dumps({"text": text.strip()}) + "\n")
