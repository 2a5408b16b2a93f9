"""scenes.py SCENE: what a rank does in a test of torch_epic; prints "all right" at its end."""

import sys

import at_once_scenes
import collectives_scenes
import end_scenes
import layout_scenes
import path_scenes
import torch_epic  # noqa: F401
import training_scenes


def main():
    scenes = {**vars(collectives_scenes), **vars(training_scenes), **vars(end_scenes), **vars(path_scenes), **vars(layout_scenes),
              **vars(at_once_scenes)}
    scenes["scene_" + sys.argv[1]](*sys.argv[2:])
    print("all right", flush=True)


if __name__ == "__main__":
    main()
