"""A character-level transformer, trained by DistributedDataParallel on EPIC; a rank on each host (docs/TORCH.md):

    epic-run torchrun --redirects 1 --tee 1 --nnodes 4 --node_rank N --master_addr A train.py [--steps 50] [--backend epic]"""
import argparse
import time

import torch
import torch_epic  # noqa: F401
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

LETTERS = 27  # 0: none


class Transformer(nn.Module):
    def __init__(self, width, layers, length):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, layers), nn.Linear(width, LETTERS)

    def forward(self, text):
        places = torch.arange(text.shape[1])
        future = torch.full((len(places), len(places)), float("-inf")).triu(1)
        return self.out(self.layers(self.letters(text) + self.places(places), future))


def batch(generator, count, length):  # text that repeats a word of three to eight letters
    words = torch.randint(1, LETTERS, (count, 8), generator=generator)
    lengths = torch.randint(3, 9, (count, 1), generator=generator)
    return words.gather(1, torch.arange(length + 1).expand(count, -1) % lengths)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"steps": 50, "width": 256, "layers": 4, "length": 32, "batch": 2, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--backend", default="epic")
    args = parser.parse_args()
    distributed.init_process_group(args.backend)
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Transformer(args.width, args.layers, args.length), bucket_cap_mb=2)  # sent meanwhile
    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimizer, begin = torch.optim.AdamW(model.parameters(), lr=2e-4), time.monotonic()
    generator = torch.Generator().manual_seed(100 * args.seed - 98 + distributed.get_rank())
    for _ in range(args.steps):
        text = batch(generator, args.batch, args.length)
        loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    seconds, mean = time.monotonic() - begin, loss.detach() / distributed.get_world_size()
    distributed.all_reduce(mean)
    if distributed.get_rank() == 0:
        print(f"{parameters} parameters, {args.steps} steps: loss {mean:.6f}, {args.steps / seconds:.3f} steps/s")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
