"""GPU kernels of attention: within packed texts, to a next token, and of answers to prompts.

Queries, keys and values of a token are side by side: HEADS queries, KEYS keys, KEYS values. HALF is
half the width of a head: turning by position pairs its two halves. BT is a block of tokens.

`tests/releases/lm/fleet/test_packed.py` compares what a packed fleet uses with the plain pass, and
`test_answer_kernels.py` what a frozen Llama uses (from `attend_answers` on) with
`frozen_llama.py` in plain torch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from synthleak.releases.lm.fleet.kernels import load_columns, text_block

# Long signatures are packed, constants on lines of their own.
# fmt: off


@triton.jit
def attend_forward(
    qkv, offsets, out, logsum, scale,
    HEADS: tl.constexpr, KEYS: tl.constexpr, HALF: tl.constexpr, BT: tl.constexpr,
):
    """Attend within each text, causally; keep the logarithm of each row's sum."""
    head, block = tl.program_id(1), tl.program_id(2)
    start, length, tokens = text_block(offsets, block, BT)
    if block * BT < length:
        width: tl.constexpr = (HEADS + 2 * KEYS) * 2 * HALF
        key = (HEADS + head // (HEADS // KEYS)) * 2 * HALF
        q1 = load_columns(qkv, start, tokens, length, head * 2 * HALF, width, HALF)
        q2 = load_columns(qkv, start, tokens, length, head * 2 * HALF + HALF, width, HALF)
        top = tl.full([BT], float("-inf"), tl.float32)
        mass = tl.zeros([BT], tl.float32)
        mixed = tl.zeros([BT, 2 * HALF], tl.float32)
        for other in range(0, block + 1):
            seen = other * BT + tl.arange(0, BT)
            k1 = load_columns(qkv, start, seen, length, key, width, HALF)
            k2 = load_columns(qkv, start, seen, length, key + HALF, width, HALF)
            v = load_columns(qkv, start, seen, length, key + KEYS * 2 * HALF, width, 2 * HALF)
            scores = tl.dot(q1, tl.trans(k1), input_precision="ieee")
            scores = scale * tl.dot(q2, tl.trans(k2), scores, input_precision="ieee")
            scores = tl.where(seen[None, :] <= tokens[:, None], scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, axis=1))
            p = tl.exp(scores - higher[:, None])
            shrink = tl.exp(top - higher)
            mass = mass * shrink + tl.sum(p, axis=1)
            mixed = mixed * shrink[:, None]
            mixed = tl.dot(p.to(v.dtype), v, mixed, input_precision="ieee")
            top = higher
        rows = (start + tokens).to(tl.int64)
        ok = tokens < length
        at = (
            rows[:, None] * (HEADS * 2 * HALF) + (head * 2 * HALF + tl.arange(0, 2 * HALF))[None, :]
        )
        tl.store(out + at, (mixed / mass[:, None]).to(out.dtype.element_ty), mask=ok[:, None])
        tl.store(logsum + rows * HEADS + head, top + tl.log(mass), mask=ok)


@triton.jit
def _slope(
    slope, inner, live, owner, size, a, start, tokens, length, head,
    HEADS: tl.constexpr, HALF: tl.constexpr, R: tl.constexpr,
):
    """Load the gradient of a head's output, with what the adapter of the next layer adds."""
    width: tl.constexpr = HEADS * 2 * HALF
    d = load_columns(slope, start, tokens, length, head * 2 * HALF, width, 2 * HALF)
    low = load_columns(inner, start, tokens, length, 0, R, R)
    cols = head * 2 * HALF + tl.arange(0, 2 * HALF)
    matrix = live + tl.load(owner + tl.program_id(0)).to(tl.int64) * size + a
    tile = tl.load(matrix + tl.arange(0, R)[:, None] * width + cols[None, :])
    return tl.dot(low, tile, d.to(tl.float32), input_precision="ieee").to(d.dtype)


@triton.jit
def _turn_back(x, y, tokens, length, cosine, sine, HALF: tl.constexpr):
    """Undo the turn of queries or keys: the transpose of a rotation."""
    at = tl.where(tokens < length, tokens, 0)[:, None] * HALF + tl.arange(0, HALF)[None, :]
    c, s = tl.load(cosine + at).to(tl.float32), tl.load(sine + at).to(tl.float32)
    return x * c + y * s, y * c - x * s


@triton.jit
def attend_queries(
    qkv, out, logsum, slope, inner, live, owner, offsets, cosine, sine, made, along, size, a, scale,
    HEADS: tl.constexpr, KEYS: tl.constexpr, HALF: tl.constexpr, R: tl.constexpr, BT: tl.constexpr,
):
    """Write the gradient of queries, and what keys and values need of each row.

    That is the gradient of the head's output with the adapter's share, over `slope`, and `along`.
    """
    head, block = tl.program_id(1), tl.program_id(2)
    start, length, tokens = text_block(offsets, block, BT)
    if block * BT < length:
        width: tl.constexpr = (HEADS + 2 * KEYS) * 2 * HALF
        key = (HEADS + head // (HEADS // KEYS)) * 2 * HALF
        q1 = load_columns(qkv, start, tokens, length, head * 2 * HALF, width, HALF)
        q2 = load_columns(qkv, start, tokens, length, head * 2 * HALF + HALF, width, HALF)
        d = _slope(slope, inner, live, owner, size, a, start, tokens, length, head, HEADS, HALF, R)
        cols = (head * 2 * HALF + tl.arange(0, 2 * HALF))[None, :]
        at = (start + tokens).to(tl.int64)[:, None] * (HEADS * 2 * HALF) + cols
        tl.store(slope + at, d, mask=(tokens < length)[:, None])
        o = load_columns(out, start, tokens, length, head * 2 * HALF, HEADS * 2 * HALF, 2 * HALF)
        rows = (start + tokens).to(tl.int64)
        ok = tokens < length
        fall = tl.sum(d.to(tl.float32) * o.to(tl.float32), axis=1)
        tl.store(along + rows * HEADS + head, fall, mask=ok)
        most = tl.load(logsum + rows * HEADS + head, mask=ok, other=0.0)
        g1, g2 = tl.zeros([BT, HALF], tl.float32), tl.zeros([BT, HALF], tl.float32)
        for other in range(0, block + 1):
            seen = other * BT + tl.arange(0, BT)
            k1 = load_columns(qkv, start, seen, length, key, width, HALF)
            k2 = load_columns(qkv, start, seen, length, key + HALF, width, HALF)
            v = load_columns(qkv, start, seen, length, key + KEYS * 2 * HALF, width, 2 * HALF)
            scores = tl.dot(q1, tl.trans(k1), input_precision="ieee")
            scores = scale * tl.dot(q2, tl.trans(k2), scores, input_precision="ieee")
            p = tl.where(seen[None, :] <= tokens[:, None], tl.exp(scores - most[:, None]), 0.0)
            dp = tl.dot(d, tl.trans(v), input_precision="ieee")
            ds = (scale * p * (dp - fall[:, None])).to(k1.dtype)
            g1 = tl.dot(ds, k1, g1, input_precision="ieee")
            g2 = tl.dot(ds, k2, g2, input_precision="ieee")
        g1, g2 = _turn_back(g1, g2, tokens, length, cosine, sine, HALF)
        at = rows[:, None] * width + (head * 2 * HALF + tl.arange(0, HALF))[None, :]
        tl.store(made + at, g1.to(made.dtype.element_ty), mask=ok[:, None])
        tl.store(made + at + HALF, g2.to(made.dtype.element_ty), mask=ok[:, None])


@triton.jit
def attend_keys(
    qkv, logsum, slope, offsets, cosine, sine, made, along, scale,
    HEADS: tl.constexpr, KEYS: tl.constexpr, HALF: tl.constexpr, BT: tl.constexpr,
):
    """Write the gradients of keys and values, added up over the queries that share them."""
    group, block = tl.program_id(1), tl.program_id(2)
    start, length, seen = text_block(offsets, block, BT)
    if block * BT < length:
        width: tl.constexpr = (HEADS + 2 * KEYS) * 2 * HALF
        key = (HEADS + group) * 2 * HALF
        k1 = load_columns(qkv, start, seen, length, key, width, HALF)
        k2 = load_columns(qkv, start, seen, length, key + HALF, width, HALF)
        v = load_columns(qkv, start, seen, length, key + KEYS * 2 * HALF, width, 2 * HALF)
        g1, g2 = tl.zeros([BT, HALF], tl.float32), tl.zeros([BT, HALF], tl.float32)
        gv = tl.zeros([BT, 2 * HALF], tl.float32)
        for head in range(group * (HEADS // KEYS), (group + 1) * (HEADS // KEYS)):
            for other in range(block, tl.cdiv(length, BT)):
                tokens = other * BT + tl.arange(0, BT)
                ok = tokens < length
                q1 = load_columns(qkv, start, tokens, length, head * 2 * HALF, width, HALF)
                q2 = load_columns(qkv, start, tokens, length, head * 2 * HALF + HALF, width, HALF)
                column = head * 2 * HALF
                d = load_columns(slope, start, tokens, length, column, HEADS * 2 * HALF, 2 * HALF)
                at = (start + tokens).to(tl.int64) * HEADS + head
                most = tl.load(logsum + at, mask=ok, other=0.0)
                fall = tl.load(along + at, mask=ok, other=0.0)
                scores = tl.dot(q1, tl.trans(k1), input_precision="ieee")
                scores = scale * tl.dot(q2, tl.trans(k2), scores, input_precision="ieee")
                visible = ok[:, None] & (seen[None, :] <= tokens[:, None])
                p = tl.where(visible, tl.exp(scores - most[:, None]), 0.0)
                gv = tl.dot(tl.trans(p.to(v.dtype)), d, gv, input_precision="ieee")
                dp = tl.dot(d, tl.trans(v), input_precision="ieee")
                ds = tl.trans((scale * p * (dp - fall[:, None])).to(q1.dtype))
                g1 = tl.dot(ds, q1, g1, input_precision="ieee")
                g2 = tl.dot(ds, q2, g2, input_precision="ieee")
        g1, g2 = _turn_back(g1, g2, seen, length, cosine, sine, HALF)
        ok = (seen < length)[:, None]
        rows = (start + seen).to(tl.int64)[:, None] * width + key
        at = rows + tl.arange(0, HALF)[None, :]
        tl.store(made + at, g1.to(made.dtype.element_ty), mask=ok)
        tl.store(made + at + HALF, g2.to(made.dtype.element_ty), mask=ok)
        at = rows + (KEYS * 2 * HALF + tl.arange(0, 2 * HALF))[None, :]
        tl.store(made + at, gv.to(made.dtype.element_ty), mask=ok)


@triton.jit(do_not_specialize=["position"])
def attend_next(
    qkv, keys, values, slot, out, position, room, scale,
    HEADS: tl.constexpr, KEYS: tl.constexpr, HALF: tl.constexpr, G: tl.constexpr, BT: tl.constexpr,
):
    """Write one position of keys and values down, and attend from it to all before it.

    The queries that share a key are the first rows of a tile of G.
    """
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    width: tl.constexpr = (HEADS + 2 * KEYS) * 2 * HALF
    shared: tl.constexpr = HEADS // KEYS
    cols, member = tl.arange(0, 2 * HALF), tl.arange(0, G)
    base = qkv + row * width
    k = tl.load(base + (HEADS + group) * 2 * HALF + cols)
    v = tl.load(base + (HEADS + KEYS + group) * 2 * HALF + cols)
    home = (tl.load(slot + row).to(tl.int64) * KEYS + group) * room * 2 * HALF
    tl.store(keys + home + position * 2 * HALF + cols, k)
    tl.store(values + home + position * 2 * HALF + cols, v)
    heads = ((group * shared + member) * 2 * HALF)[:, None] + cols[None, :]
    q = tl.load(base + heads, mask=(member < shared)[:, None], other=0.0)
    own = scale * tl.sum(q.to(tl.float32) * k.to(tl.float32)[None, :], axis=1)
    top, mass = own, tl.full([G], 1.0, tl.float32)
    mixed = tl.zeros([G, 2 * HALF], tl.float32) + v.to(tl.float32)[None, :]
    for start in range(0, position, BT):
        seen = start + tl.arange(0, BT)
        past = (seen < position)[:, None]
        at = home + seen[:, None] * 2 * HALF + cols[None, :]
        before = tl.load(keys + at, mask=past, other=0.0)
        scores = scale * tl.dot(q, tl.trans(before), input_precision="ieee")
        scores = tl.where((seen < position)[None, :], scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        p = tl.exp(scores - higher[:, None])
        shrink = tl.exp(top - higher)
        mass = mass * shrink + tl.sum(p, axis=1)
        old = tl.load(values + at, mask=past, other=0.0)
        mixed = tl.dot(p.to(old.dtype), old, mixed * shrink[:, None], input_precision="ieee")
        top = higher
    made = (mixed / mass[:, None]).to(out.dtype.element_ty)
    tl.store(out + row * HEADS * 2 * HALF + heads, made, mask=(member < shared)[:, None])


@triton.jit
def _attend_to(
    keys, values, at, past, keep, q1, q2, top, mass, mixed, scale, HALF: tl.constexpr,
):
    """Add the positions `at` of keys and values to a running softmax, where `keep` allows."""
    half, cols = tl.arange(0, HALF), tl.arange(0, 2 * HALF)
    k1 = tl.load(keys + at[:, None] + half[None, :], mask=past[:, None], other=0.0)
    k2 = tl.load(keys + at[:, None] + (HALF + half)[None, :], mask=past[:, None], other=0.0)
    v = tl.load(values + at[:, None] + cols[None, :], mask=past[:, None], other=0.0)
    scores = tl.dot(q1, tl.trans(k1), input_precision="ieee")
    scores = scale * tl.dot(q2, tl.trans(k2), scores, input_precision="ieee")
    scores = tl.where(keep, scores, float("-inf"))
    higher = tl.maximum(top, tl.max(scores, axis=1))
    p = tl.exp(scores - higher[:, None])
    shrink = tl.exp(top - higher)
    mass = mass * shrink + tl.sum(p, axis=1)
    mixed = tl.dot(p.to(v.dtype), v, mixed * shrink[:, None], input_precision="ieee")
    return higher, mass, mixed


@triton.jit
def _turned(at, ok, cosine, sine, HALF: tl.constexpr):
    """Load both halves of queries or keys, and turn them."""
    x = tl.load(at, mask=ok, other=0.0)
    y = tl.load(at + HALF, mask=ok, other=0.0).to(tl.float32)
    kind = x.dtype
    x = x.to(tl.float32)
    return (x * cosine - y * sine).to(kind), (y * cosine + x * sine).to(kind)


@triton.jit(do_not_specialize=["step"])
def attend_answers(
    qkv, keys, values, slot, prompt_keys, prompt_values, offsets, home, lengths, cosine, sine, out,
    step, room, width, scale,
    HEADS: tl.constexpr, KEYS: tl.constexpr, HALF: tl.constexpr, Q: tl.constexpr, BT: tl.constexpr,
):
    """Turn queries and keys, keep keys and values, and attend: one group of answers, one key head.

    The rows of group g are offsets[g] to offsets[g + 1], at most Q // (HEADS // KEYS) of them, and
    their prompt is home[g]. All their queries that share a key head are one tile of Q rows. Every
    query sees the new position of its own row, the whole prompt, and the `step` earlier positions
    of its own row, which lie at slot[row].
    """
    group, head = tl.program_id(0), tl.program_id(1)
    shared: tl.constexpr = HEADS // KEYS
    size: tl.constexpr = 2 * HALF
    across: tl.constexpr = (HEADS + 2 * KEYS) * size
    first = tl.load(offsets + group)
    many = tl.load(offsets + group + 1) - first
    prompt = tl.load(home + group).to(tl.int64)
    length = tl.load(lengths + prompt)
    query, half, cols = tl.arange(0, Q), tl.arange(0, HALF), tl.arange(0, size)
    answer, member = query // shared, query % shared
    real = answer < many
    ok = real[:, None]
    rows = (first + answer).to(tl.int64)
    angle = (length + step) * HALF + half
    c, s = tl.load(cosine + angle)[None, :], tl.load(sine + angle)[None, :]

    base = qkv + rows[:, None] * across
    at = base + ((head * shared + member) * size)[:, None] + half[None, :]
    q1, q2 = _turned(at, ok, c, s, HALF)
    k1, k2 = _turned(base + (HEADS + head) * size + half[None, :], ok, c, s, HALF)
    v = tl.load(base + (HEADS + KEYS + head) * size + cols[None, :], mask=ok, other=0.0)

    place = tl.load(slot + rows, mask=real, other=0).to(tl.int64)
    to = ((place * KEYS + head) * room + step)[:, None] * size
    write = ok & (member == 0)[:, None]
    tl.store(keys + to + half[None, :], k1, mask=write)
    tl.store(keys + to + (HALF + half)[None, :], k2, mask=write)
    tl.store(values + to + cols[None, :], v, mask=write)

    top = tl.sum(q1.to(tl.float32) * k1.to(tl.float32), axis=1)
    top = scale * (top + tl.sum(q2.to(tl.float32) * k2.to(tl.float32), axis=1))
    mass = tl.full([Q], 1.0, tl.float32)
    mixed = v.to(tl.float32)
    start = (prompt * KEYS + head) * width
    for begin in range(0, length, BT):
        seen = begin + tl.arange(0, BT)
        past = seen < length
        top, mass, mixed = _attend_to(
            prompt_keys, prompt_values, (start + seen) * size, past, past[None, :], q1, q2, top,
            mass, mixed, scale, HALF,
        )
    # The answers' own positions, end to end: each query sees those of its own answer.
    for begin in range(0, many * step, BT):
        seen = begin + tl.arange(0, BT)
        past = seen < many * step
        whose = seen // step
        home_of = tl.load(slot + first + whose, mask=past, other=0).to(tl.int64)
        there = ((home_of * KEYS + head) * room + seen - whose * step) * size
        keep = past[None, :] & (whose[None, :] == answer[:, None])
        top, mass, mixed = _attend_to(
            keys, values, there, past, keep, q1, q2, top, mass, mixed, scale, HALF
        )
    made = (mixed / mass[:, None]).to(v.dtype)
    at = rows[:, None] * (HEADS * size) + ((head * shared + member) * size)[:, None] + cols[None, :]
    tl.store(out + at, made, mask=ok)


@triton.jit(do_not_specialize=["values"])
def gate(both, out, values, WIDTH: tl.constexpr, BN: tl.constexpr):
    """Return silu(gate) · up, where a row of `both` is WIDTH gates, then WIDTH ups."""
    place = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    ok = place < values
    at = place + place // WIDTH * WIDTH
    g = tl.load(both + at, mask=ok, other=0.0).to(tl.float32)
    u = tl.load(both + at + WIDTH, mask=ok, other=0.0).to(tl.float32)
    tl.store(out + place, (g * tl.sigmoid(g) * u).to(out.dtype.element_ty), mask=ok)
