"""The loss of each example, with the output layer computed in chunks.

The logits of a fleet's batch would not fit into memory: 40,000 tokens times a vocabulary of
128,000. They are computed chunk by chunk, together with the gradient, so that only one chunk exists
at a time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

IGNORED = -100
CHUNK = 4096


def loss_gradients(
    states: Tensor, head: Tensor, targets: Tensor, losses: Tensor | None = None, piece: int = CHUNK
) -> Tensor:
    """Return the gradient of each token's loss by its state; fill `losses` if given."""
    gradients = torch.empty_like(states)
    for start in range(0, len(states), piece):
        part = slice(start, start + piece)
        # Softmax sums in single precision at least, whatever the type of its input.
        probabilities = torch.softmax(torch.matmul(states[part], head.T), dim=1)
        right = targets[part, None]
        if losses is not None:
            losses[part] = -probabilities.gather(1, right).squeeze(1).clamp(min=1e-30).log()
        probabilities.scatter_add_(1, right, torch.full_like(right, -1, dtype=probabilities.dtype))
        torch.matmul(probabilities, head, out=gradients[part])
    return gradients


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
        """Return each example's mean loss over its trained tokens."""
        states, targets = hidden.flatten(0, 1), labels.flatten().clamp(min=0)
        losses = torch.empty(len(states), dtype=states.dtype, device=states.device)
        gradients = loss_gradients(states, head, targets, losses)
        trained = labels != IGNORED
        share = trained / trained.sum(dim=1, keepdim=True).clamp(min=1).to(torch.float64)
        ctx.save_for_backward(gradients.view_as(hidden).mul_(share[:, :, None].to(gradients.dtype)))
        total = (losses.view_as(labels).to(share.dtype) * share).sum(dim=1)
        return total.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradients by the hidden states, which the forward pass has computed."""
        (outer,) = grads
        (gradients,) = ctx.saved_tensors
        return gradients * outer[:, None, None].to(gradients.dtype), None, None


def example_losses(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss of each example; `labels[e, t]` is what follows token t, or IGNORED.

    An example without a trained token has loss 0 and no gradient.
    """
    return _ChunkedLoss.apply(hidden, head, labels)  # type: ignore[no-any-return]
