"""GPU kernels of a packed fleet: what happens between the products with frozen weights.

All texts of a step are end to end, sorted by instance. A tile is some rows of one instance, so the
matrices of its adapter are read in place: no example has its own copy. What an adapter adds to a
product is added where the product is next read.

A part of an adapter's matrix is [BN, W]: columns of the layer by columns of the low rank. `place`
says where the low-rank columns begin, and `STRIDE` how far apart neighbouring columns of the layer
are, so that A, B and stacks of several A are all read the same way.

`tests/releases/lm/fleet/test_packed.py` compares all of it with the plain pass.
"""

# Long signatures are packed, constants on lines of their own.
# fmt: off

from __future__ import annotations

import triton
import triton.language as tl

AHEAD = tl.constexpr(3)
"""Steps of a loop over columns or tokens whose loads are under way together."""


@triton.jit
def _rows(tiles, live, size, BM: tl.constexpr):
    """Return the rows of a tile, which are real, and the adapter of its instance."""
    tile = tiles + tl.program_id(0) * 3
    rows = tl.load(tile) + tl.arange(0, BM)
    real = rows < tl.load(tile + 1)
    return rows.to(tl.int64), real, live + tl.load(tile + 2).to(tl.int64) * size


@triton.jit
def _stack(start0, start1, start2, WIDTH: tl.constexpr, R: tl.constexpr, W: tl.constexpr):
    """Return where each row of up to three stacked A begins."""
    low = tl.arange(0, W)
    number = low // R
    start = tl.where(number == 0, start0, tl.where(number == 1, start1, start2))
    return start + (low % R) * WIDTH


@triton.jit
def _narrow(acc, x, adapter, place, used, cols, STRIDE: tl.constexpr):
    """Add x [BM, BN] times a matrix [BN, W] to acc [BM, W]."""
    at = adapter + cols[:, None] * STRIDE + place[None, :]
    matrix = tl.load(at, mask=used[None, :], other=0.0)
    return tl.dot(x, matrix, acc, input_precision="ieee")


@triton.jit
def _widen(low, adapter, place, used, cols, STRIDE: tl.constexpr):
    """Return low [BM, W] times a matrix [BN, W], transposed."""
    at = adapter + cols[None, :] * STRIDE + place[:, None]
    matrix = tl.load(at, mask=used[:, None], other=0.0)
    return tl.dot(low, matrix, input_precision="ieee")


@triton.jit
def _low(x, rows, real, first, width, USED: tl.constexpr, W: tl.constexpr):
    """Load USED low-rank columns of a tile, filled up with zeros to W."""
    low = tl.arange(0, W)
    ok = real[:, None] & (low < USED)[None, :]
    return tl.load(x + rows[:, None] * width + first + low[None, :], mask=ok, other=0.0)


@triton.jit
def norm_forward(
    before, added, inner, live, tiles, weight, after, normed, spread, below, size, b, a0, a1, a2,
    scale, tiny,
    WIDTH: tl.constexpr, ADD: tl.constexpr, STACK: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):
    """Add a layer's product and adapter to the residual, normalise, and multiply by the next A."""
    rows, real, adapter = _rows(tiles, live, size, BM)
    low, rank = tl.arange(0, W), tl.arange(0, R)
    squares = tl.zeros([BM], tl.float32)
    if ADD:
        up = _low(inner, rows, real, 0, R, R, R)
    for start in tl.range(0, WIDTH, BN, num_stages=AHEAD):
        cols = start + tl.arange(0, BN)
        at = rows[:, None] * WIDTH + cols[None, :]
        x = tl.load(before + at, mask=real[:, None], other=0.0)
        if ADD:
            y = tl.load(added + at, mask=real[:, None], other=0.0).to(tl.float32)
            y += scale * _widen(up, adapter, b + rank, rank < R, cols, R)
            x = (x.to(tl.float32) + y).to(x.dtype)
            tl.store(after + at, x, mask=real[:, None])
        squares += tl.sum(x.to(tl.float32) * x.to(tl.float32), axis=1)
    root = 1.0 / tl.sqrt(squares / WIDTH + tiny)
    tl.store(spread + rows, root, mask=real)
    tl.debug_barrier()
    if STACK:
        place = _stack(a0, a1, a2, WIDTH, R, W)
        acc = tl.zeros([BM, W], tl.float32)
    for start in tl.range(0, WIDTH, BN, num_stages=AHEAD):
        cols = start + tl.arange(0, BN)
        at = rows[:, None] * WIDTH + cols[None, :]
        x = tl.load(after + at, mask=real[:, None], other=0.0)
        w = tl.load(weight + cols).to(tl.float32)
        h = (x.to(tl.float32) * root[:, None] * w[None, :]).to(x.dtype)
        tl.store(normed + at, h, mask=real[:, None])
        if STACK:
            acc = _narrow(acc, h, adapter, place, low < STACK * R, cols, 1)
    if STACK:
        ok = real[:, None] & (low < STACK * R)[None, :]
        at = rows[:, None] * (STACK * R) + low[None, :]
        tl.store(below + at, acc.to(below.dtype.element_ty), mask=ok)


@triton.jit
def norm_backward(
    slope, below, live, tiles, x, spread, weight, more, out, inner, size, b, a0, a1, a2, scale,
    WIDTH: tl.constexpr, ADD: tl.constexpr, STACK: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):
    """Pass a gradient back through a norm and its adapters' A, onto the residual's own gradient.

    `inner` receives the result times the B of the layer whose product was added before the norm.
    """
    rows, real, adapter = _rows(tiles, live, size, BM)
    low, rank = tl.arange(0, W), tl.arange(0, R)
    root = tl.load(spread + rows, mask=real, other=0.0)
    if STACK:
        place = _stack(a0, a1, a2, WIDTH, R, W)
        down = _low(below, rows, real, 0, STACK * R, STACK * R, W)
    along = tl.zeros([BM], tl.float32)
    for start in tl.range(0, WIDTH, BN, num_stages=AHEAD):
        cols = start + tl.arange(0, BN)
        at = rows[:, None] * WIDTH + cols[None, :]
        g = tl.load(slope + at, mask=real[:, None], other=0.0).to(tl.float32)
        if STACK:
            g += _widen(down, adapter, place, low < STACK * R, cols, 1)
        g *= tl.load(weight + cols).to(tl.float32)[None, :]
        unit = tl.load(x + at, mask=real[:, None], other=0.0).to(tl.float32) * root[:, None]
        along += tl.sum(g * unit, axis=1)
    along = along / WIDTH
    acc = tl.zeros([BM, R], tl.float32)
    for start in tl.range(0, WIDTH, BN, num_stages=AHEAD):
        cols = start + tl.arange(0, BN)
        at = rows[:, None] * WIDTH + cols[None, :]
        g = tl.load(slope + at, mask=real[:, None], other=0.0).to(tl.float32)
        if STACK:
            g += _widen(down, adapter, place, low < STACK * R, cols, 1)
        g *= tl.load(weight + cols).to(tl.float32)[None, :]
        unit = tl.load(x + at, mask=real[:, None], other=0.0).to(tl.float32) * root[:, None]
        d = (g - unit * along[:, None]) * root[:, None]
        if ADD:
            d += tl.load(more + at, mask=real[:, None], other=0.0).to(tl.float32)
        made = d.to(out.dtype.element_ty)
        tl.store(out + at, made, mask=real[:, None])
        acc = _narrow(acc, made, adapter, b + rank, rank < R, cols, R)
    at = rows[:, None] * R + rank[None, :]
    tl.store(inner + at, (scale * acc).to(inner.dtype.element_ty), mask=real[:, None])


@triton.jit
def gate_forward(
    both, inner, live, tiles, out, below, size, b0, b1, a, scale,
    WIDTH: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """Return silu(gate) · up with both adapters added, and its product with the next A."""
    rows, real, adapter = _rows(tiles, live, size, BM)
    rank = tl.arange(0, R)
    all_of = rank < R
    of_gate = _low(inner, rows, real, 0, 2 * R, R, R)
    of_up = _low(inner, rows, real, R, 2 * R, R, R)
    acc = tl.zeros([BM, R], tl.float32)
    for start in tl.range(0, WIDTH, BN, num_stages=AHEAD):
        cols = start + tl.arange(0, BN)
        at = rows[:, None] * (2 * WIDTH) + cols[None, :]
        g = tl.load(both + at, mask=real[:, None], other=0.0).to(tl.float32)
        u = tl.load(both + at + WIDTH, mask=real[:, None], other=0.0).to(tl.float32)
        g += scale * _widen(of_gate, adapter, b0 + rank, all_of, cols, R)
        u += scale * _widen(of_up, adapter, b1 + rank, all_of, cols, R)
        z = (g * tl.sigmoid(g) * u).to(out.dtype.element_ty)
        tl.store(out + rows[:, None] * WIDTH + cols[None, :], z, mask=real[:, None])
        acc = _narrow(acc, z, adapter, a + rank * WIDTH, all_of, cols, 1)
    at = rows[:, None] * R + rank[None, :]
    tl.store(below + at, acc.to(below.dtype.element_ty), mask=real[:, None])


@triton.jit
def gate_backward(
    slope, below, both, inner, live, tiles, back, size, b0, b1, a, scale,
    WIDTH: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """Write the gradients of gate and up over their products, and return them times each B."""
    rows, real, adapter = _rows(tiles, live, size, BM)
    rank = tl.arange(0, R)
    all_of = rank < R
    of_gate = _low(inner, rows, real, 0, 2 * R, R, R)
    of_up = _low(inner, rows, real, R, 2 * R, R, R)
    down = _low(below, rows, real, 0, R, R, R)
    gates, ups = tl.zeros([BM, R], tl.float32), tl.zeros([BM, R], tl.float32)
    for start in tl.range(0, WIDTH, BN, num_stages=AHEAD):
        cols = start + tl.arange(0, BN)
        at = rows[:, None] * (2 * WIDTH) + cols[None, :]
        g = tl.load(both + at, mask=real[:, None], other=0.0).to(tl.float32)
        u = tl.load(both + at + WIDTH, mask=real[:, None], other=0.0).to(tl.float32)
        g += scale * _widen(of_gate, adapter, b0 + rank, all_of, cols, R)
        u += scale * _widen(of_up, adapter, b1 + rank, all_of, cols, R)
        dz = tl.load(slope + rows[:, None] * WIDTH + cols[None, :], mask=real[:, None], other=0.0)
        dz = dz.to(tl.float32) + _widen(down, adapter, a + rank * WIDTH, all_of, cols, 1)
        share = tl.sigmoid(g)
        dg = (dz * u * share * (1.0 + g * (1.0 - share))).to(both.dtype.element_ty)
        du = (dz * g * share).to(both.dtype.element_ty)
        tl.store(both + at, dg, mask=real[:, None])
        tl.store(both + at + WIDTH, du, mask=real[:, None])
        gates = _narrow(gates, dg, adapter, b0 + rank, all_of, cols, R)
        ups = _narrow(ups, du, adapter, b1 + rank, all_of, cols, R)
    at = rows[:, None] * (2 * R) + rank[None, :]
    tl.store(back + at, (scale * gates).to(back.dtype.element_ty), mask=real[:, None])
    tl.store(back + at + R, (scale * ups).to(back.dtype.element_ty), mask=real[:, None])


@triton.jit
def turn(
    qkv, inner, live, tiles, position, cosine, sine, size, b0, b1, b2, scale,
    HEADS: tl.constexpr, KEYS: tl.constexpr, HALF: tl.constexpr, R: tl.constexpr, BM: tl.constexpr,
):
    """Add the adapters to queries, keys and values, and turn queries and keys, in place."""
    rows, real, adapter = _rows(tiles, live, size, BM)
    head = tl.program_id(1)
    rank, cols = tl.arange(0, R), tl.arange(0, HALF)
    kind = (head >= HEADS).to(tl.int32) + (head >= HEADS + KEYS).to(tl.int32)
    before = tl.where(kind == 0, 0, tl.where(kind == 1, HEADS, HEADS + KEYS))
    start = tl.where(kind == 0, b0, tl.where(kind == 1, b1, b2))
    start += (head - before) * (2 * HALF * R)
    low = _low(inner, rows, real, kind * R, 3 * R, R, R)
    at = rows[:, None] * ((HEADS + 2 * KEYS) * 2 * HALF) + (head * 2 * HALF + cols)[None, :]
    place = start + rank
    x = tl.load(qkv + at, mask=real[:, None], other=0.0).to(tl.float32)
    y = tl.load(qkv + at + HALF, mask=real[:, None], other=0.0).to(tl.float32)
    x += scale * _widen(low, adapter, place, rank < R, cols, R)
    y += scale * _widen(low, adapter, place, rank < R, cols + HALF, R)
    if kind < 2:
        c, s = _angle(position, cosine, sine, rows, real, HALF)
        x, y = x * c - y * s, y * c + x * s
    tl.store(qkv + at, x.to(qkv.dtype.element_ty), mask=real[:, None])
    tl.store(qkv + at + HALF, y.to(qkv.dtype.element_ty), mask=real[:, None])


@triton.jit
def _angle(position, cosine, sine, rows, real, HALF: tl.constexpr):
    """Return cosine and sine of each row's position."""
    at = tl.load(position + rows, mask=real, other=0)[:, None] * HALF + tl.arange(0, HALF)[None, :]
    return tl.load(cosine + at).to(tl.float32), tl.load(sine + at).to(tl.float32)


@triton.jit
def project(
    x, live, tiles, out, size, start, scale, skip, column, across, width, apart,
    A: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """Multiply `width` columns of x, from `skip` on, by each row's own A or else B.

    Rows of x are `across` columns apart, those of `out` `apart`.
    """
    rows, real, adapter = _rows(tiles, live, size, BM)
    rank = tl.arange(0, R)
    acc = tl.zeros([BM, R], tl.float32)
    for c in tl.range(0, width, BN, num_stages=AHEAD):
        cols = c + tl.arange(0, BN)
        at = rows[:, None] * across + (skip + cols)[None, :]
        tile = tl.load(x + at, mask=real[:, None], other=0.0)
        if A:
            place = start + rank * width
            acc = _narrow(acc, tile, adapter, place, rank < R, cols, 1)
        else:
            acc = _narrow(acc, tile, adapter, start + rank, rank < R, cols, R)
    at = rows[:, None] * apart + (column + rank)[None, :]
    tl.store(out + at, (scale * acc).to(out.dtype.element_ty), mask=real[:, None])


@triton.jit
def _text(offsets, block, BT: tl.constexpr):
    """Return where a text begins, its length, and the tokens of one of its blocks."""
    text = tl.program_id(0)
    start = tl.load(offsets + text)
    length = tl.load(offsets + text + 1) - start
    return start, length, block * BT + tl.arange(0, BT)


@triton.jit
def _head(x, start, tokens, length, column, width, D: tl.constexpr):
    """Load D columns of a block of tokens."""
    at = (start + tokens).to(tl.int64)[:, None] * width + (column + tl.arange(0, D))[None, :]
    return tl.load(x + at, mask=(tokens < length)[:, None], other=0.0)


@triton.jit
def attend_forward(
    qkv, offsets, out, logsum, scale,
    HEADS: tl.constexpr, KEYS: tl.constexpr, HALF: tl.constexpr, BT: tl.constexpr,
):
    """Attend within each text, causally; keep the logarithm of each row's sum."""
    head, block = tl.program_id(1), tl.program_id(2)
    start, length, tokens = _text(offsets, block, BT)
    if block * BT < length:
        width: tl.constexpr = (HEADS + 2 * KEYS) * 2 * HALF
        key = (HEADS + head // (HEADS // KEYS)) * 2 * HALF
        q1 = _head(qkv, start, tokens, length, head * 2 * HALF, width, HALF)
        q2 = _head(qkv, start, tokens, length, head * 2 * HALF + HALF, width, HALF)
        top = tl.full([BT], float("-inf"), tl.float32)
        mass = tl.zeros([BT], tl.float32)
        mixed = tl.zeros([BT, 2 * HALF], tl.float32)
        for other in range(0, block + 1):
            seen = other * BT + tl.arange(0, BT)
            k1 = _head(qkv, start, seen, length, key, width, HALF)
            k2 = _head(qkv, start, seen, length, key + HALF, width, HALF)
            v = _head(qkv, start, seen, length, key + KEYS * 2 * HALF, width, 2 * HALF)
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
    d = _head(slope, start, tokens, length, head * 2 * HALF, width, 2 * HALF)
    low = _head(inner, start, tokens, length, 0, R, R)
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
    start, length, tokens = _text(offsets, block, BT)
    if block * BT < length:
        width: tl.constexpr = (HEADS + 2 * KEYS) * 2 * HALF
        key = (HEADS + head // (HEADS // KEYS)) * 2 * HALF
        q1 = _head(qkv, start, tokens, length, head * 2 * HALF, width, HALF)
        q2 = _head(qkv, start, tokens, length, head * 2 * HALF + HALF, width, HALF)
        d = _slope(slope, inner, live, owner, size, a, start, tokens, length, head, HEADS, HALF, R)
        cols = (head * 2 * HALF + tl.arange(0, 2 * HALF))[None, :]
        at = (start + tokens).to(tl.int64)[:, None] * (HEADS * 2 * HALF) + cols
        tl.store(slope + at, d, mask=(tokens < length)[:, None])
        o = _head(out, start, tokens, length, head * 2 * HALF, HEADS * 2 * HALF, 2 * HALF)
        rows = (start + tokens).to(tl.int64)
        ok = tokens < length
        fall = tl.sum(d.to(tl.float32) * o.to(tl.float32), axis=1)
        tl.store(along + rows * HEADS + head, fall, mask=ok)
        most = tl.load(logsum + rows * HEADS + head, mask=ok, other=0.0)
        g1, g2 = tl.zeros([BT, HALF], tl.float32), tl.zeros([BT, HALF], tl.float32)
        for other in range(0, block + 1):
            seen = other * BT + tl.arange(0, BT)
            k1 = _head(qkv, start, seen, length, key, width, HALF)
            k2 = _head(qkv, start, seen, length, key + HALF, width, HALF)
            v = _head(qkv, start, seen, length, key + KEYS * 2 * HALF, width, 2 * HALF)
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
    start, length, seen = _text(offsets, block, BT)
    if block * BT < length:
        width: tl.constexpr = (HEADS + 2 * KEYS) * 2 * HALF
        key = (HEADS + group) * 2 * HALF
        k1 = _head(qkv, start, seen, length, key, width, HALF)
        k2 = _head(qkv, start, seen, length, key + HALF, width, HALF)
        v = _head(qkv, start, seen, length, key + KEYS * 2 * HALF, width, 2 * HALF)
        g1, g2 = tl.zeros([BT, HALF], tl.float32), tl.zeros([BT, HALF], tl.float32)
        gv = tl.zeros([BT, 2 * HALF], tl.float32)
        for head in range(group * (HEADS // KEYS), (group + 1) * (HEADS // KEYS)):
            for other in range(block, tl.cdiv(length, BT)):
                tokens = other * BT + tl.arange(0, BT)
                ok = tokens < length
                q1 = _head(qkv, start, tokens, length, head * 2 * HALF, width, HALF)
                q2 = _head(qkv, start, tokens, length, head * 2 * HALF + HALF, width, HALF)
                column = head * 2 * HALF
                d = _head(slope, start, tokens, length, column, HEADS * 2 * HALF, 2 * HALF)
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


@triton.jit(do_not_specialize=["row", "texts"])
def squares(
    low, wide, offsets, out, row, texts, factor, s0, s1, s2, s3, narrow, width,
    USED: tl.constexpr, W: tl.constexpr, SHARES: tl.constexpr, BT: tl.constexpr, BN: tl.constexpr,
):
    """Return the squared norm of each text's gradient lowᵀ wide, which is never written down.

    Columns of `wide` lie between s0 and s3 in up to three parts, each with its own W columns of
    `low`. SHARES programs divide the columns of a part, and each writes its sum.
    """
    part, share = tl.program_id(1), tl.program_id(2)
    start, length, _ = _text(offsets, 0, BT)
    begin = tl.where(part == 0, s0, tl.where(part == 1, s1, s2))
    end = tl.where(part == 0, s1, tl.where(part == 1, s2, s3))
    begin += share * BN
    total = tl.zeros([W, BN], tl.float32)
    tokens = tl.arange(0, BT)
    rows = (start + tokens).to(tl.int64)
    u = _low(low, rows, tokens < length, part * W, narrow, USED, W)
    if length <= BT:  # most texts are short: their low ranks are read once
        for c in tl.range(begin, end, SHARES * BN, num_stages=AHEAD):
            v = _head(wide, start, tokens, length, c, width, BN)
            acc = tl.dot(tl.trans(u), v, input_precision="ieee")
            total += acc * acc
    else:
        for c in range(begin, end, SHARES * BN):
            acc = tl.zeros([W, BN], tl.float32)
            for t in tl.range(0, length, BT, num_stages=AHEAD):
                later = t + tokens
                rows = (start + later).to(tl.int64)
                u = _low(low, rows, later < length, part * W, narrow, USED, W)
                v = _head(wide, start, later, length, c, width, BN)
                acc = tl.dot(tl.trans(u), v, acc, input_precision="ieee")
            total += acc * acc
    at = ((row + part) * SHARES + share) * texts + tl.program_id(0)
    tl.store(out + at, factor * tl.sum(tl.sum(total, axis=0), axis=0))


@triton.jit
def add_sums(
    low, wide, weight, spans, out, size, factor, s1, s2, p0, p1, p2, narrow, width,
    USED: tl.constexpr, W: tl.constexpr, R: tl.constexpr, STACK: tl.constexpr, BT: tl.constexpr,
    BN: tl.constexpr,
):
    """Add each instance's sum of weighted gradients lowᵀ wide to its row of `out`.

    STACK: gradients of stacked A, whose rows are apart by the width; else of B.
    """
    c, instance = tl.program_id(0) * BN, tl.program_id(1)
    begin, end = tl.load(spans + instance), tl.load(spans + instance + 1)
    if begin < end:
        rank, cols = tl.arange(0, W), c + tl.arange(0, BN)
        if STACK:
            part = 0
            number = rank // R
            start = tl.where(number == 0, p0, tl.where(number == 1, p1, p2))
            at = (start + (rank % R) * width)[:, None] + cols[None, :]
        else:
            part = (c >= s1).to(tl.int32) + (c >= s2).to(tl.int32)
            start = tl.where(part == 0, p0, tl.where(part == 1, p1 - s1 * R, p2 - s2 * R))
            at = start + rank[:, None] + cols[None, :] * R
        acc = tl.zeros([W, BN], tl.float32)
        for t in tl.range(begin, end, BT, num_stages=AHEAD):
            rows = t + tl.arange(0, BT)
            real = rows < end
            u = _low(low, rows.to(tl.int64), real, part * W, narrow, USED, W)
            w = tl.load(weight + rows, mask=real, other=0.0)
            u = (u.to(tl.float32) * w[:, None]).to(u.dtype)
            v = _head(wide, t, tl.arange(0, BT), end - t, c, width, BN)
            acc = tl.dot(tl.trans(u), v, acc, input_precision="ieee")
        at += instance.to(tl.int64) * size
        ok = (rank < USED)[:, None]
        tl.store(out + at, tl.load(out + at, mask=ok, other=0.0) + factor * acc, mask=ok)


@triton.jit
def adamw(
    total, master, first, second, live, n, over, keep, toward, slow, fresh, root, rate, tiny,
    BN: tl.constexpr,
):
    """Take an AdamW step by `total` times `over`, and publish it."""
    at = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    ok = at < n
    g = over * tl.load(total + at, mask=ok, other=0.0)
    m = tl.load(first + at, mask=ok, other=0.0)
    m += toward * (g - m)
    v = slow * tl.load(second + at, mask=ok, other=0.0) + fresh * g * g
    p = keep * tl.load(master + at, mask=ok, other=0.0) - rate * m / (tl.sqrt(v) / root + tiny)
    tl.store(first + at, m, mask=ok)
    tl.store(second + at, v, mask=ok)
    tl.store(master + at, p, mask=ok)
    tl.store(live + at, p.to(live.dtype.element_ty), mask=ok)
