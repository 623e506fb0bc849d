"""The package's layers: a module imports from its own package or from lower layers, never upwards, and packages have no
import cycles. Imports inside functions count too."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import reaper

SOURCE = Path(reaper.__file__).parent

# From the bottom up. A name is a package or a module in the root of `reaper`.
LAYERS = [
    {"errors", "plugins", "progress", "randomness", "state", "system", "version"},
    {"config", "equations", "paper"},
    {"tasks", "networks", "memory", "compute"},
    {"storage"},
    {"context", "zoo"},
    {"generators", "teachers"},
    {"retention"},
    {"learning"},
    {"study"},
    {"engines"},
    {"results"},
    {"agent", "export", "report", "monitoring", "bench"},
    {"cli", "__init__", "__main__"},
]
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names}
MOST_ROOT_MODULES = 12


def imported_modules(path):
    """The modules of `reaper` that a file imports, at its top or inside a function, and the lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            package = path.relative_to(SOURCE.parent).parts[: -node.level] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            modules = [f"{module}.{alias.name}" for alias in node.names] if module == "reaper" else [module]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        yield from ((module, node.lineno) for module in modules if module.startswith("reaper."))


def imports():
    """(file and line, importing package, imported package) of every import from one package to another."""
    for path in sorted(SOURCE.rglob("*.py")):
        importer = path.relative_to(SOURCE).with_suffix("").parts[0]
        for module, line in imported_modules(path):
            imported = module.split(".")[1]
            if imported != importer:
                yield f"{path.relative_to(SOURCE)}:{line}", importer, imported


def test_every_package_and_root_module_has_a_layer():
    names = {path.stem for path in SOURCE.glob("*.py")} | {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert names == set(LAYER_OF)


def test_no_import_goes_upwards():
    upwards = [
        f"{where} imports {imported}"
        for where, importer, imported in imports()
        if LAYER_OF[imported] > LAYER_OF[importer]
    ]
    assert upwards == []


def test_packages_have_no_import_cycles():
    needs = {name: set() for name in LAYER_OF}
    for _, importer, imported in imports():
        needs[importer].add(imported)
    TopologicalSorter(needs).prepare()  # raises an error that names a cycle


def test_the_root_stays_small():
    modules = [path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")]
    assert len(modules) <= MOST_ROOT_MODULES
