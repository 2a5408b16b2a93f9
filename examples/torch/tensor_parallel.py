"""A character-level language model whose layers are split over the ranks; two all_reduces a layer put them together again (docs/TORCH.md):

    epic-run torchrun --redirects 1 --tee 1 --nnodes 4 --node_rank N --master_addr A tensor_parallel.py README.md [--steps 100]"""
import argparse
import math

import torch
import torch_epic  # noqa: F401
from torch import distributed, nn


class Copied(torch.autograd.Function):  # a rank's share of the gradients of what all ranks have
    @staticmethod
    def forward(_, x):
        return x

    @staticmethod
    def backward(_, gradient):
        gradient = gradient.contiguous()
        distributed.all_reduce(gradient)
        return gradient


class Added(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        distributed.all_reduce(x)
        return x

    @staticmethod
    def backward(_, gradient):
        return gradient


class Attention(nn.Module):  # a rank's heads
    def __init__(self, width, heads, shares):
        super().__init__()
        self.heads, self.inner = nn.Linear(width, 3 * width // shares), nn.Linear(width // shares, width, bias=False)
        self.count = heads // shares

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = self.heads(x).view(batch, length, 3, self.count, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        scores = scores + torch.full((length, length), float("-inf")).triu(1)
        return self.inner((scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, -1))


class Model(nn.Module):
    """put_together: of a list, what each share here made of the same input; by default this is one of several ranks."""

    def __init__(self, letters, width=256, layers=4, heads=8, length=64, shares=8, put_together=lambda parts: Added.apply(parts[0])):
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.attention = nn.ModuleList(nn.ModuleList(Attention(width, heads, shares) for _ in range(shares)) for _ in range(layers))
        self.hidden = nn.ModuleList(nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width // shares), nn.GELU(), nn.Linear(4 * width // shares, width, bias=False))
            for _ in range(shares)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.out, self.put_together, self.takes = nn.Linear(width, letters), put_together, lambda x: x

    def keep(self, rank):  # the others are on other ranks
        for layer in (*self.attention, *self.hidden):
            for other in sorted(set(range(len(layer))) - {rank}, reverse=True):
                del layer[other]
        self.takes = Copied.apply

    def forward(self, text):
        x = self.letters(text) + self.places(torch.arange(text.shape[1]))
        norms = iter(self.norms)
        for layer in (layer for pair in zip(self.attention, self.hidden) for layer in pair):
            normed = self.takes(next(norms)(x))
            x = x + self.put_together([share(normed) for share in layer])
        return self.out(next(norms)(x))


def read(paths):  # letters of ASCII, the rest as one; most to learn from, and what is never learned from
    text = b"".join(open(path, "rb").read() for path in paths)
    codes = torch.tensor([min(code, 127) for code in text])
    return codes.split([len(codes) * 9 // 10, len(codes) - len(codes) * 9 // 10])


def batch(generator, codes, count, length):
    begins = torch.randint(len(codes) - length, (count, 1), generator=generator)
    text = codes[begins + torch.arange(length + 1)]
    return text[:, :-1], text[:, 1:]


def loss_of(model, text, following):
    return nn.functional.cross_entropy(model(text).flatten(0, 1), following.flatten())


def learn(model, codes, steps, count=8, length=64):
    optimizer, generator = torch.optim.AdamW(model.parameters(), lr=1e-3), torch.Generator().manual_seed(2)
    for _ in range(steps):
        loss = loss_of(model, *batch(generator, codes, count, length))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="+", help="files to learn from")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--backend", default="epic")
    args = parser.parse_args()
    known, unknown = read(args.text)
    distributed.init_process_group(args.backend)
    torch.manual_seed(1)  # all ranks begin with the same model
    model = Model(128, shares=distributed.get_world_size())
    model.keep(distributed.get_rank())
    learn(model, known, args.steps)
    with torch.no_grad():
        loss = loss_of(model, *batch(torch.Generator().manual_seed(3), unknown, 32, 64))
    if distributed.get_rank() == 0:
        print(f"{args.steps} steps: perplexity {math.exp(loss):.4f} of text that it has not learned from")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
