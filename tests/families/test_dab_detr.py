"""DAB-DETR's files."""

import shutil
from pathlib import Path

from safetensors.numpy import load_file, save_file

from txexport.exporter import export
from txexport.verification import verify


def test_the_network_of_boxes_has_either_name(checkpoint_of, tmp_path):
    """transformers 4 wrote it under the decoder's name, since 5 it is under the head's."""
    source = Path(shutil.copytree(checkpoint_of("dab-detr"), tmp_path / "source"))
    names = load_file(source / "model.safetensors")
    old = {
        name.replace("bbox_predictor.", "model.decoder.bbox_embed."): values for name, values in names.items()
    }
    assert old.keys() != names.keys()
    save_file(old, source / "model.safetensors", {"format": "pt"})
    export(source, tmp_path / "out", only="native")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok
    assert report.references == ["checkpoint", "twin", "transformers"]
