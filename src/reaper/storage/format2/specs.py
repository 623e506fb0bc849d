"""Settings and stage specs of format 2, converted to format 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reaper.storage.format2 import names
from reaper.storage.manifests import SPEC_FORMAT

Json = dict[str, Any]
MEMORY_KINDS = ("consolidate", "inherited memory")


def convert_settings(groups: Mapping[str, Mapping[str, Any]]) -> Json:
    """Settings as format 3 has them: only what differs from the defaults, methods apart from groups."""
    found: Json = {}
    for group, values in groups.items():
        for name, value in values.items():
            default, now = names.SETTINGS[f"{group}.{name}"]
            for dotted in now if value != default else ():
                owner, _, field = dotted.partition(".")
                place = found.setdefault("methods", {}) if owner in names.METHODS else found
                place.setdefault(owner, {})[field] = value
    return found


def convert_retention(described: Mapping[str, Any]) -> Json:
    """A retention method: its registered name, and fields of a plugged-in one as they are."""
    name, fields = described["name"], {key: value for key, value in described.items() if key != "name"}
    if name == "rehearsal":
        return {"name": "limited-rehearsal" if fields.get("limited") else "rehearsal"}
    return {"name": names.RETENTIONS[name]} if name in names.RETENTIONS else {"name": name, **fields}


def convert_title(title: str) -> str:
    for old, new in names.TITLES.items():
        title = title.replace(old, new)
    return title


def convert_axes(axes: Mapping[str, Any]) -> Json:
    return {
        "objective": names.OBJECTIVES.get(axes["teaching"], axes["teaching"]),
        "retention": convert_retention(axes["retention"])["name"],
        "knowledge": axes["knowledge"],
    }


def convert_parents(parents: Mapping[str, str], digest_now: Callable[[str], str]) -> dict[str, str]:
    return {names.PARENT_ROLES.get(role, role): digest_now(digest) for role, digest in parents.items()}


def convert_spec(spec: Mapping[str, Any], digest_now: Callable[[str], str]) -> Json:
    """The spec that the same stage has in format 3; `digest_now` converts the digests of its parents."""
    kind = spec["kind"]
    converted: Json = {names.SPEC_KEYS.get(name, name): value for name, value in spec.items()}
    converted["parents"] = convert_parents(spec["parents"], digest_now)
    if "format" in spec:  # absent where nothing is known but that a stage existed
        converted["format"] = SPEC_FORMAT
    if "settings" in spec:
        converted["settings"] = convert_settings(spec["settings"])
    if "items" in spec:
        converted["items"] = names.ITEMS[spec["items"]]
    if "axes" in spec:
        converted["axes"] = convert_axes(spec["axes"])
    if kind in MEMORY_KINDS:
        converted["settings"] = _memory_settings(converted, spec["axes"]["retention"])
    elif kind == "fisher":
        converted["settings"].pop("methods", None)
    return converted


def _memory_settings(spec: Json, retention: Mapping[str, Any]) -> Json:
    """Without the settings of methods that the stage does not use, and of those that its first task does not."""
    axes, settings = spec["axes"], {name: dict(values) for name, values in spec["settings"].items()}
    used = {axes["retention"]}
    if axes["retention"] in names.GENERATOR_RETENTIONS or axes["objective"] == "generated distillation":
        used.add("gan")
    methods = {name: dict(values) for name, values in settings.pop("methods", {}).items() if name in used}
    own = {key: value for key, value in convert_retention(retention).items() if key != "name"}
    methods |= {axes["retention"]: own} if own else {}
    if len(spec["tasks"]) == 1:
        for dotted in names.FROM_SECOND_TASK:
            owner, _, field = dotted.partition(".")
            (methods if owner in names.METHODS else settings).get(owner, {}).pop(field, None)
    settings = {name: values for name, values in settings.items() if values}
    methods = {name: values for name, values in methods.items() if values}
    return {**settings, **({"methods": methods} if methods else {})}
