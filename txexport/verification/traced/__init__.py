"""Graphs that transformers' own exporter traces, for classes without a family, under the same proof.

They need PyTorch and transformers, which are imported when they are used.
"""

from typing import TYPE_CHECKING

from txexport.errors import needed_for
from txexport.support.arguments import arguments_from
from txexport.verification.traced.arguments import TracedArguments

if TYPE_CHECKING:
    from txexport.bundle import Manifest, TracedManifest
    from txexport.support.progress import Naming
    from txexport.verification.result import Report
    from txexport.verification.verify_arguments import VerifyArguments


@arguments_from(TracedArguments)
def export_traced(arguments: TracedArguments) -> "TracedManifest | Manifest":
    """Write the checkpoint `source` as a traced bundle to the folder `out`, and return its manifest.

    For classes of transformers without a family here. The library's exporter (torch.export) makes one graph.
    That of a decoder (`...ForCausalLM`) is a step over a growing cache, in the contract of the graphs for
    other clients; an encoder-decoder of texts has two graphs, of the source and of a step. `load` runs both
    as any bundle, and they must equal the class in every case. That of any other class is the whole forward,
    which `load_traced` runs. It is tried at several batches and sizes, with whole outputs; a dimension at
    which it differs is fixed, or has a least size, and the manifest says why. What differs at the sizes of
    its own trace, gives random answers or does not export is refused.

    `source` is a folder, or a model on a hub. `architecture` is a class of transformers, by default the one
    in config.json. `opset` is 18 to 23. `absolute_source` and `force` are those of `export`. `progress` is
    called with what is tried; True prints it. Needs PyTorch and transformers; to run the bundle needs
    neither. Raises CheckpointError, UnsupportedError, BundleError, InputError.
    """
    with needed_for("export --traced", "verify"):
        from txexport.verification.traced import export
    return export.write(arguments)


def verify_traced(arguments: "VerifyArguments", tell: "Naming") -> "Report":
    """The report of `verify` for a traced bundle."""
    with needed_for("verify", "verify"):
        from txexport.verification.traced import verifying
    return verifying.verify_traced(arguments, tell)
