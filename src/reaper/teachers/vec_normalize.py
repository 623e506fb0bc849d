"""Statistics of SB3's VecNormalize: `sb3:FILE.zip,STATISTICS.npz`.

SB3 keeps them in a pickle of their own, which is never opened here. Whoever trusts it saves them as plain arrays:

    np.savez("statistics.npz", mean=env.obs_rms.mean, var=env.obs_rms.var, epsilon=env.epsilon, clip_obs=env.clip_obs)
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from reaper.errors import UserError
from reaper.teachers.files import open_zip, read_bytes, read_member
from reaper.teachers.layers import LayerList

DEFAULTS = {"epsilon": 1e-8, "clip_obs": 10.0}  # of VecNormalize
MAX_ARRAY = 2**20  # bytes
PICKLE = "vec_normalize.pkl"  # what rl-zoo and SB3's examples call it
HOW = "save them with np.savez and add ,FILE.npz to the source (docs/guides/from-sb3.md)"


def split_source(text: str) -> tuple[Path, Path | None]:
    """`FILE.zip,STATISTICS.npz` -> both; a file may also have a comma in its name."""
    file, comma, statistics = text.rpartition(",")
    if not comma or Path(text).is_file():
        return Path(text), None
    return Path(file), Path(statistics)


def add_normalisation(found: LayerList, path: Path, shape: Sequence[int]) -> None:
    """The layer that does what VecNormalize did, in front of all others."""
    if len(shape) != 1:
        raise UserError(f"{path}: only vectors can be normalised, and the agent sees {'x'.join(map(str, shape))}")
    numbers = _read(path)
    for name in ("mean", "var"):
        if numbers[name].shape != (shape[0],):
            raise UserError(f"{path}: {name} has shape {numbers[name].shape}, and the agent sees {shape[0]} numbers")
    epsilon, clip = (float(numbers.get(name, np.array(value))) for name, value in DEFAULTS.items())
    if (numbers["var"] + epsilon <= 0).any() or clip <= 0:
        raise UserError(f"{path}: var + epsilon and clip_obs must be above 0")
    place = len(found.layers)
    found.weights[f"{place}.mean"] = torch.from_numpy(numbers["mean"])
    found.weights[f"{place}.std"] = torch.from_numpy(np.sqrt(numbers["var"] + epsilon))
    found.add("normalise", clip=clip)


def _read(path: Path) -> dict[str, np.ndarray]:
    if path.suffix in (".pkl", ".pickle"):
        raise UserError(f"{path} is a pickle, which is never opened; {HOW}")
    opened = open_zip(read_bytes(path), str(path))
    names = [name.removesuffix(".npy") for name in opened.namelist()]
    if missing := [name for name in ("mean", "var") if name not in names]:
        raise UserError(f"{path} holds no {missing[0]}; it has {', '.join(names)[:80] or 'nothing'}")
    return {name: _array(opened, name, path) for name in names if name in ("mean", "var", *DEFAULTS)}


def _array(opened: zipfile.ZipFile, name: str, path: Path) -> np.ndarray:
    data = read_member(opened, f"{name}.npy", MAX_ARRAY, str(path))
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
        numbers = np.asarray(array, dtype=np.float64)
    except (ValueError, TypeError, EOFError, OSError, SyntaxError):
        raise UserError(f"{path}: {name} is no array of numbers") from None
    if not np.isfinite(numbers).all() or (name in DEFAULTS and numbers.size != 1):
        raise UserError(f"{path}: {name} must be finite" + (" and one number" if name in DEFAULTS else ""))
    return numbers.reshape(()) if name in DEFAULTS else numbers


def unused_statistics(file: Path) -> str | None:
    """A remark where a pickle of statistics lies next to an agent that is read without them."""
    for folder in (file.parent, file.with_suffix("")):
        if (folder / PICKLE).is_file():
            return (
                f"{folder / PICKLE} lies next to the agent and is not used; if it normalised what the agent saw, {HOW}"
            )
    return None
