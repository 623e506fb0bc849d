"""What is known of a teacher from elsewhere, and reading its weights without executing anything in the file."""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from reaper.errors import UserError
from reaper.storage.files import canonical

MAX_BYTES = 2**30  # of all weights together
MAX_MEMBERS = 4_096
SHOWN_KEYS = 12

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class TeacherFile:
    """An agent as it was found: what its network is (plain JSON), and the network's weights."""

    source: str  # as the user named it
    network: Mapping[str, Any]  # family, outputs (values or logits), num_actions, and what the family needs
    weights: Tensors = field(repr=False)
    remarks: tuple[str, ...] = ()  # what the user should know about the file

    @property
    def outputs(self) -> str:
        return self.network["outputs"]

    @property
    def num_actions(self) -> int:
        return self.network["num_actions"]

    @property
    def contents(self) -> str:
        """A digest of the network and of every weight, whatever file they came from."""
        digest = hashlib.sha256(canonical(dict(self.network)).encode())
        for name, tensor in sorted(self.weights.items()):
            digest.update(canonical([name, str(tensor.dtype), list(tensor.shape)]).encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()


def unknown_architecture(source: str, weights: Mapping[str, torch.Tensor], why: str = "") -> UserError:
    """The error for weights of a network that is none of the known ones; it lists the keys."""
    found = [f"{name[:60]} {tuple(tensor.shape)}" for name, tensor in weights.items()]
    rest = f" and {len(found) - SHOWN_KEYS} more" if len(found) > SHOWN_KEYS else ""
    listed = ", ".join(found[:SHOWN_KEYS]) + rest if found else "none"
    return UserError(f"{source}: unknown architecture{f' ({why})' if why else ''}; keys found: {listed}")


def read_bytes(path: Path) -> bytes:
    """A whole file of a sensible size."""
    if not path.is_file():
        raise UserError(f"{path} is no file")
    if path.stat().st_size > 2 * MAX_BYTES:
        raise UserError(f"{path} is larger than any agent that can be read ({2 * MAX_BYTES:,} bytes)")
    return path.read_bytes()


def open_zip(data: bytes, name: str) -> zipfile.ZipFile:
    """A zip whose members have plain names, each once, and a sensible size when unpacked."""
    try:
        opened = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise UserError(f"{name} is no zip file, or a damaged one") from None
    members = opened.infolist()
    names = [member.filename for member in members]
    if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > 2 * MAX_BYTES:
        raise UserError(f"{name} would unpack to more than any agent takes")
    if len(set(names)) < len(names) or any(_is_unsafe(member) for member in names):
        raise UserError(f"{name} holds members with names that no agent has")
    return opened


def _is_unsafe(name: str) -> bool:
    return name.startswith("/") or "\\" in name or ".." in name.split("/") or not name.isprintable()


def read_member(opened: zipfile.ZipFile, member: str, most: int, name: str) -> bytes:
    """One member of a zip, of at most so many bytes."""
    if member not in opened.namelist():
        raise UserError(f"{name} holds no {member}; it has {', '.join(opened.namelist()[:SHOWN_KEYS]) or 'nothing'}")
    try:
        with opened.open(member) as stream:
            data = stream.read(most + 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise UserError(f"{name}: {member} cannot be unpacked ({str(error)[:80]})") from None
    except Exception as error:  # zlib.error and lzma.LZMAError derive from Exception alone
        raise UserError(f"{name}: {member} cannot be unpacked ({type(error).__name__})") from None
    if len(data) > most:
        raise UserError(f"{name}: {member} is larger than {most:,} bytes")
    return data


def read_state_dict(data: bytes, name: str) -> Tensors:
    """The tensors of a file that `torch.save` wrote. A file that would run code when it is loaded is refused."""
    for member in open_zip(data, name).infolist():  # torch itself never compresses: a compressed member is a bomb
        if member.compress_type != zipfile.ZIP_STORED:
            raise UserError(f"{name} holds compressed tensors, which torch.save does not write")
    try:
        loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UserError(f"{name} holds more than tensors and would run code; it is not opened") from None
    except Exception as error:  # torch raises errors of many kinds for damaged files
        raise UserError(f"{name} cannot be read as a state dict ({type(error).__name__})") from None
    if isinstance(loaded, Mapping) and isinstance(loaded.get("model_weights"), Mapping):
        loaded = loaded["model_weights"]  # CleanRL's C51 saves its settings next to them
    if not isinstance(loaded, Mapping) or not loaded:
        raise UserError(f"{name} holds no state dict but {type(loaded).__name__}")
    return checked_weights(loaded, name)


def checked_weights(loaded: Mapping[Any, Any], name: str) -> Tensors:
    """Plain, finite tensors of a sensible size, each with memory of its own."""
    total, tensors = 0, {}
    for key, tensor in loaded.items():
        if not isinstance(key, str) or not isinstance(tensor, torch.Tensor):
            raise UserError(f"{name} holds {str(key)[:60]!r}, which is no tensor")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise UserError(f"{name}: {key[:60]} is no plain tensor")
        total += tensor.numel() * tensor.element_size()  # of a view, what it would take when it is copied
        if total > MAX_BYTES:
            raise UserError(f"{name} would take more than {MAX_BYTES:,} bytes")
        tensors[key] = tensor.detach()
    for key, tensor in tensors.items():
        tensors[key] = tensor.contiguous().clone()
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise UserError(f"{name}: {key[:60]} is not finite")
    return tensors
