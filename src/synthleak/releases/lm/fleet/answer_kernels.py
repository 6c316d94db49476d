"""GPU kernels of a step of many answers to each of many prompts, without adapters.

`answer_cache.py` and `frozen_llama.py` compute the same in plain torch;
`tests/releases/lm/fleet/test_answer_kernel_check.py` compares them.
"""

# Long signatures are packed, constants on lines of their own.
# fmt: off

from __future__ import annotations

import triton
import triton.language as tl


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


@triton.jit
def _ordered(bits):
    """Map the bits of half-precision numbers to integers in their order, and back."""
    return bits ^ ((bits >> 15) & 0x7FFF)


@triton.jit
def _ranked(x, K: tl.constexpr):
    """Return the ranks of the K largest of x, in no order but without gaps; others have more.

    x are integers between -32768 and 32767, or less where nothing is. Of values equal to the
    K-th largest, the first have the smallest ranks.
    """
    bound = -32768
    for bit in tl.static_range(16):
        higher = bound + (32768 >> bit)
        bound = tl.where(tl.sum((x >= higher).to(tl.int32), axis=0) >= K, higher, bound)
    above, level = (x > bound).to(tl.int32), (x == bound).to(tl.int32)
    many = tl.sum(above, axis=0)
    rank = tl.where(above > 0, tl.cumsum(above, axis=0) - 1, many + tl.cumsum(level, axis=0) - 1)
    return tl.where((above + level) > 0, rank, 65536)


@triton.jit
def largest(
    logits, maxima, scratch, values, tokens, groups,
    K: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr, MOST: tl.constexpr,
):
    """Return the K largest logits of a row and their tokens, the largest first.

    They lie within the K groups whose maxima are largest. Logits are given by their bits.
    """
    row = tl.program_id(0).to(tl.int64)
    group, place, member = tl.arange(0, GROUPS), tl.arange(0, MOST), tl.arange(0, GROUP)
    scratch += row * (2 * MOST)
    m = tl.load(maxima + row * groups + group, mask=group < groups, other=0).to(tl.int32)
    rank = _ranked(tl.where(group < groups, _ordered(m), -65536), K)
    tl.store(scratch + rank, group.to(tl.int64), mask=rank < K)
    tl.debug_barrier()
    chosen = tl.load(scratch + place, mask=place < K, other=0).to(tl.int32)
    token = member[:, None] * groups + chosen[None, :]
    real = (place < K)[None, :] & (member >= 0)[:, None]
    x = tl.load(logits + row * groups * GROUP + token, mask=real, other=0).to(tl.int32)
    x = tl.reshape(tl.where(real, _ordered(x), -65536), [GROUP * MOST])
    rank = _ranked(x, K)
    # Value and token as one number: equal values are in the order of their tokens.
    both = (x.to(tl.int64) << 32) + (2147483647 - tl.reshape(token, [GROUP * MOST]))
    tl.store(scratch + MOST + rank, both, mask=rank < K)
    tl.debug_barrier()
    both = tl.load(scratch + MOST + place, mask=place < K, other=-9223372036854775807)
    both = tl.sort(both, descending=True)
    value = _ordered((both >> 32).to(tl.int32)).to(tl.int16)
    tl.store(values + row * K + place, value, mask=place < K)
    tl.store(tokens + row * K + place, 2147483647 - (both & 2147483647), mask=place < K)
