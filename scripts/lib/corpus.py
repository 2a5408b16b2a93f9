#!/usr/bin/python3
"""Seeds of the fuzz targets. tests/corpus/TARGET.tar has those that were generated, tests/corpus/TARGET/NAME those with a reason.

In an archive a seed's name is the SHA-1 of what is in it, as libFuzzer has it. The seeds lie there by name, each with the same
owner, time and mode: the same seeds make the same archive, byte for byte.
"""
import argparse
import hashlib
import io
import os
import pathlib
import shutil
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/corpus"
UNPACKED = ROOT / "build/seeds"


def name_of(seed):
    """The name of a generated seed, given its bytes."""
    return hashlib.sha1(seed).hexdigest()


def targets(folder=FOLDER):
    """The names of all that have seeds."""
    return sorted({path.name if path.is_dir() else path.stem for path in folder.iterdir() if path.is_dir() or path.suffix == ".tar"})


def archived(target, folder=FOLDER):
    """{name: bytes} of those in its archive; empty if it has none."""
    file = folder / f"{target}.tar"
    if not file.exists():
        return {}
    with tarfile.open(file, "r:") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def loose(target, folder=FOLDER):
    """{name: bytes} of those that are files of their own."""
    place = folder / target
    return {path.name: path.read_bytes() for path in sorted(place.iterdir())} if place.is_dir() else {}


def packed(seeds):
    """The archive of these bytes, each once."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.USTAR_FORMAT) as archive:
        for name, seed in sorted({name_of(seed): seed for seed in seeds}.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(seed), 0o644
            archive.addfile(member, io.BytesIO(seed))
    return out.getvalue()


def pack(target, seeds, folder=FOLDER):
    """Makes the target's archive of these bytes, but for those that it has as files of their own; how many are in it."""
    by_hand = set(loose(target, folder).values())
    kept = {seed for seed in seeds if seed not in by_hand}
    file = folder / f"{target}.tar"
    if kept:
        file.write_bytes(packed(kept))
    else:
        file.unlink(missing_ok=True)
    return len(kept)


def unpack(target, place, folder=FOLDER):
    """Makes `place` the folder of all its seeds, of both kinds, and of nothing else."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name, seed in {**archived(target, folder), **loose(target, folder)}.items():
        (place / name).write_bytes(seed)


def unpack_some(args):
    for target in args.targets or targets():
        unpack(target, args.into / target)
        print(f"{target:24} {len(list((args.into / target).iterdir())):>4} seeds in {os.path.relpath(args.into / target)}")


def add(args):
    before = archived(args.target)
    after = pack(args.target, [*before.values(), *(file.read_bytes() for file in args.files)])
    print(f"{args.target}: {len(before)} seeds before, {after} now")


def remove(args):
    seeds = archived(args.target)
    if missing := [name for name in args.names if name not in seeds]:
        sys.exit(f"corpus: not in {args.target}.tar: {', '.join(missing)}")
    after = pack(args.target, [seed for name, seed in seeds.items() if name not in args.names])
    print(f"{args.target}: {len(seeds)} seeds before, {after} now")


def show(args):
    for target in args.targets or targets():
        named = loose(target)
        for name, seed in sorted({**archived(target), **named}.items()):
            print(f"{name_of(seed)} {len(seed):>5} {target}/{name if name in named else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser("unpack", help="all seeds of the targets, a folder for each; what else is there goes")
    command.add_argument("targets", nargs="*", metavar="TARGET", help="which ones; all if none is named")
    command.add_argument("--into", type=pathlib.Path, default=UNPACKED, metavar="FOLDER", help="default: build/seeds")
    command.set_defaults(run=unpack_some)
    command = commands.add_parser("list", help="a line for each seed: SHA-1, bytes, target, and the name of one with a reason")
    command.add_argument("targets", nargs="*", metavar="TARGET", help="which ones; all if none is named")
    command.set_defaults(run=show)
    command = commands.add_parser("add", help="puts files into a target's archive; one that is there already is there once")
    command.add_argument("target", metavar="TARGET")
    command.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    command.set_defaults(run=add)
    command = commands.add_parser("remove", help="takes seeds out of a target's archive")
    command.add_argument("target", metavar="TARGET")
    command.add_argument("names", nargs="+", metavar="SHA-1")
    command.set_defaults(run=remove)
    args = parser.parse_args()
    unknown = [target for target in getattr(args, "targets", []) if target not in targets()]
    if unknown:
        parser.error(f"no seeds of {', '.join(unknown)}; there are some of {', '.join(targets())}")
    args.run(args)


if __name__ == "__main__":
    main()
