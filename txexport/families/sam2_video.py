"""SAM 2 of videos (Ravi et al. 2024), of which the model of images is exported; memories are left out."""

from txexport.families import sam2

TASKS = {"mask-generation": ("Sam2VideoModel", "Sam2Model")}
NAMING, REFUSED = sam2.NAMING, sam2.REFUSED
spec, table = sam2.spec, sam2.table
