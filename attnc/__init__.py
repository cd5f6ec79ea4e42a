"""attnc, a compiler for attention: a spec of ten lines in, one verified module out.

attnc.compile("retention.attn").write("retention.py")
retention = attnc.load("retention.attn", set={"heads": 4})
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from attnc.diagnostics import Diagnostic, SpecError
from attnc.files import FileProblem, read_source
from attnc.source import Source
from attnc.verify.verdict import VerificationFailed
from attnc.version import __version__

if TYPE_CHECKING:
    from attnc.pipeline import Compiled

__all__ = [
    "Diagnostic",
    "FileProblem",
    "SpecError",
    "VerificationFailed",
    "__version__",
    "compile",
    "load",
]


def compile(
    spec: str | os.PathLike[str],
    *,
    set: Mapping[str, object] | None = None,
    form: str | None = None,
    reference_only: bool = False,
    verify: str = "quick",
) -> Compiled:
    """Compile a spec, given as a path or as its text, to the text of one Python module.

    `set` overrides lets and scalar clauses, `form` is the module's default form.
    `reference_only` generates the reference alone, for a legal spec that has no kernels yet.
    `verify` is "quick", "full" or "none": the module is compared with its reference before it is
    handed out. Raises SpecError, FileProblem or VerificationFailed.
    """
    from attnc.pipeline import compile_text, options

    return compile_text(_source(spec), options(set or {}, form, reference_only, verify))


def load(
    spec: str | os.PathLike[str],
    *,
    set: Mapping[str, object] | None = None,
    form: str | None = None,
    reference_only: bool = False,
    verify: str = "quick",
) -> ModuleType:
    """Compile and verify a spec as `compile` does, once per content, version and options, and
    import it."""
    from attnc.cache import load_module
    from attnc.pipeline import options

    return load_module(_source(spec), options(set or {}, form, reference_only, verify))


def _source(spec: str | os.PathLike[str]) -> Source:
    if isinstance(spec, str) and ("{" in spec or "\n" in spec):
        return Source("<spec>", spec.replace("\r\n", "\n"))
    return read_source(spec)
