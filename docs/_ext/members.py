"""What the page of a class lists."""

import inspect
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

PACKAGE = "botorch_pref"


@dataclass(frozen=True)
class PublicMembers:
    """The public methods and properties of a class that this package defines, own ones first.

    Those of its bases in the package count, as some are private and have no page. Those of torch
    and BoTorch are left out, and so are fields, which the docstring of the class describes.

    It is an object, not a function, because Sphinx stores its configuration.
    """

    def __call__(self, module: str, name: str) -> list[str]:
        """Names of members, in the order of the bases and of the source.

        Args:
            module: The module that exports the class.
            name: The class, by its name there.
        """
        found: dict[str, None] = {}
        for base in inspect.getmro(getattr(import_module(module), name)):
            if is_ours(base):
                for member, value in vars(base).items():
                    if not member.startswith("_") and _is_code(value):
                        found[member] = None
        return list(found)


def is_ours(cls: type) -> bool:
    """Whether this package defines a class."""
    return cls.__module__.split(".")[0] == PACKAGE


def _is_code(value: object) -> bool:
    """Whether this was written as a function; fields are not, whatever holds them."""
    kinds = property | cached_property | classmethod | staticmethod
    return inspect.isfunction(value) or isinstance(value, kinds)
