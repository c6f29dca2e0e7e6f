"""The layout of the package: the direction of imports, the docstrings.

The modules are parsed, not imported, so an import inside a function counts as well.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "botorch_pref"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE

# Lowest first; a module may import from its own layer and from those before it.
LAYERS = (
    ("exceptions", "_memory", "randomness"),
    ("data", "queries", "likelihoods"),
    ("inference", "likelihood_ratio", "kernels"),
    ("models",),
    ("acquisition",),
    ("space",),
    ("strategies",),
    ("problems",),
    ("study", "runner"),
    ("plotting", "cli", "integrations"),
)
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}

# Parts that are functions of tensors: what they may not reach, directly or by way of the package.
TENSOR_PARTS = ("likelihoods", "inference", "likelihood_ratio")
FORBIDDEN = (f"{PACKAGE}.models", "gpytorch", "botorch.models")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def module_name(path: Path) -> str:
    """`botorch_pref/models/fitting.py` is `botorch_pref.models.fitting`."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
MODULES = sorted(PATHS)


@cache
def parse(module: str) -> ast.Module:
    return ast.parse(PATHS[module].read_text(encoding="utf-8"))


def absolute(module: str, node: ast.ImportFrom) -> str:
    """The module that a `from` import names, a relative one resolved."""
    if not node.level:
        return node.module or ""
    is_package = PATHS[module].name == "__init__.py"
    parts = module.split(".")
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, node.module] if node.module else base)


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Every module that `module` imports, by its full name, and the line."""
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            source = absolute(module, node)
            for alias in node.names:
                # `from package import module` names a module, everything else a module's attribute.
                full = f"{source}.{alias.name}"
                yield (full if full in PATHS or full in FORBIDDEN else source), node.lineno


def is_part(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def part(module: str) -> str | None:
    """The part of the package a module belongs to, None outside it and for the package itself."""
    names = module.split(".")
    return names[1] if names[0] == PACKAGE and len(names) > 1 else None


def reached(modules: list[str]) -> dict[str, str]:
    """All modules imported from `modules`, directly or through the package, and by which module."""
    found: dict[str, str] = {}
    open_modules = list(modules)
    while open_modules:
        importer = open_modules.pop()
        for target, _ in imports(importer):
            if target in found:
                continue
            found[target] = importer
            if target in PATHS:
                # Importing a submodule runs the __init__ of every package above it.
                names = target.split(".")
                open_modules.extend(".".join(names[: i + 1]) for i in range(len(names)))
    return found


def public_definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """The public classes and functions of a module, and the public methods of those classes."""
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        if any(ast.unparse(d).endswith(("overload", ".setter")) for d in node.decorator_list):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from public_definitions(node.body, f"{prefix}{node.name}.")


def test_the_package_is_found() -> None:
    assert PACKAGE in PATHS
    assert len(MODULES) > len(LAYERS)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_layer(module: str) -> None:
    assert module == PACKAGE or part(module) in LAYER_OF


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    level = LAYER_OF.get(part(module) or "", -1)  # the package's own __init__ lies below them all
    wrong = [
        f"line {line}: {target}"
        for target, line in imports(module)
        if (name := part(target)) is not None and LAYER_OF.get(name, len(LAYERS)) > level
    ]
    assert not wrong, f"{module} imports from a higher layer: {wrong}"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_imports_the_experiments(module: str) -> None:
    assert not [line for target, line in imports(module) if is_part(target, "experiments")]


@pytest.mark.parametrize("name", TENSOR_PARTS)
def test_functions_of_tensors_know_no_model(name: str) -> None:
    own = [module for module in MODULES if is_part(module, f"{PACKAGE}.{name}")]
    wrong = [
        f"{target} (by {importer})"
        for target, importer in reached(own).items()
        if any(is_part(target, forbidden) for forbidden in FORBIDDEN)
    ]
    assert not wrong, f"{name} reaches {wrong}"


def test_importing_the_package_loads_nothing() -> None:
    assert list(imports(PACKAGE)) == []


@pytest.mark.parametrize("module", MODULES)
def test_docstrings(module: str) -> None:
    missing = [
        f"{module}:{node.lineno} {name}"
        for name, node in public_definitions(parse(module).body)
        if not ast.get_docstring(node)
    ]
    if not ast.get_docstring(parse(module)):
        missing.append(f"{module}: the module")
    assert not missing, missing
