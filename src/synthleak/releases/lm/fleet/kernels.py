"""GPU kernels of a packed fleet: what happens between the products with frozen weights.

Attention has its own file, `attention_kernels.py`.

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
def text_block(offsets, block, BT: tl.constexpr):
    """Return where a text begins, its length, and the tokens of one of its blocks."""
    text = tl.program_id(0)
    start = tl.load(offsets + text)
    length = tl.load(offsets + text + 1) - start
    return start, length, block * BT + tl.arange(0, BT)


@triton.jit
def load_columns(x, start, tokens, length, column, width, D: tl.constexpr):
    """Load D columns of a block of tokens."""
    at = (start + tokens).to(tl.int64)[:, None] * width + (column + tl.arange(0, D))[None, :]
    return tl.load(x + at, mask=(tokens < length)[:, None], other=0.0)


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
    start, length, _ = text_block(offsets, 0, BT)
    begin = tl.where(part == 0, s0, tl.where(part == 1, s1, s2))
    end = tl.where(part == 0, s1, tl.where(part == 1, s2, s3))
    begin += share * BN
    total = tl.zeros([W, BN], tl.float32)
    tokens = tl.arange(0, BT)
    rows = (start + tokens).to(tl.int64)
    u = _low(low, rows, tokens < length, part * W, narrow, USED, W)
    if length <= BT:  # most texts are short: their low ranks are read once
        for c in tl.range(begin, end, SHARES * BN, num_stages=AHEAD):
            v = load_columns(wide, start, tokens, length, c, width, BN)
            acc = tl.dot(tl.trans(u), v, input_precision="ieee")
            total += acc * acc
    else:
        for c in range(begin, end, SHARES * BN):
            acc = tl.zeros([W, BN], tl.float32)
            for t in tl.range(0, length, BT, num_stages=AHEAD):
                later = t + tokens
                rows = (start + later).to(tl.int64)
                u = _low(low, rows, later < length, part * W, narrow, USED, W)
                v = load_columns(wide, start, later, length, c, width, BN)
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
            v = load_columns(wide, t, tl.arange(0, BT), end - t, c, width, BN)
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
