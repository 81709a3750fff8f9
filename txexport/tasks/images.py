"""Image classification, image vectors, zero-shot classification with two encoders, and detection."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import LABELS, VECTOR, VECTORS, Method, Task

BOX = "struct<xmin:double,ymin:double,xmax:double,ymax:double>"
OBJECTS = f"array<struct<label:string,score:double,box:{BOX}>>"
DEPTH_MAP = "struct<predicted_depth:array<array<float>>,depth:array<array<int>>>"
MASK = "struct<size:array<bigint>,counts:array<bigint>>"
POINTS = "array<struct<label:string,score:double,x:double,y:double>>"
POSES = f"array<struct<box:{BOX},keypoints:{POINTS}>>"
SEGMENTS = f"array<struct<label:string,score:double,mask:{MASK}>>"
MASKS = f"array<array<struct<score:double,mask:{MASK}>>>"
METHODS = (
    Method("embed_image", ("image",), "embedding", VECTOR),
    Method("classify_image", ("image",), "labels", LABELS),
    Method("detect", ("image",), "objects", OBJECTS),
    Method("depth", ("image",), "depth", DEPTH_MAP),
    Method("segment", ("image",), "segments", SEGMENTS),
    Method("pose", ("image", "boxes"), "poses", POSES),
    Method("masks", ("image", "prompts"), "masks", MASKS),
    Method("all_masks", ("image",), "masks", f"array<struct<score:double,mask:{MASK}>>"),
    Method("match", ("image",), "labels", LABELS),
    Method("find", ("image",), "objects", OBJECTS),
    Method("embed_pages", ("image",), "embeddings", VECTORS),
    Method("embed_queries", ("text",), "embeddings", VECTORS),
    Method("rank_pages", ("query",), "ranking", "array<struct<corpus_id:bigint,score:double>>", crossed=True),
)
ROWS = (
    Task(
        "image-feature-extraction",
        (Architecture.ENCODER,),
        HeadKind.NONE,
        "AutoModel",
        ("embed_image",),
        other_heads=(HeadKind.LAST_MAP,),
    ),
    Task(
        "image-classification",
        (Architecture.ENCODER,),
        HeadKind.SEQUENCE,
        "AutoModelForImageClassification",
        ("classify_image",),
    ),
    Task(
        "object-detection",
        (Architecture.ENCODER,),
        HeadKind.BOXES,
        "AutoModelForObjectDetection",
        ("detect",),
    ),
    Task(
        "depth-estimation",
        (Architecture.ENCODER,),
        HeadKind.DEPTH,
        "AutoModelForDepthEstimation",
        ("depth",),
    ),
    Task(
        "image-segmentation",
        (Architecture.ENCODER,),
        HeadKind.SEGMENTS,
        "AutoModelForSemanticSegmentation",
        ("segment",),
        auto_classes={
            "maskformer": "AutoModelForUniversalSegmentation",
            "mask2former": "AutoModelForUniversalSegmentation",
            "detr": "AutoModelForImageSegmentation",
            "rf_detr": "AutoModelForInstanceSegmentation",
        },
        other_heads=(
            HeadKind.MASKS,
            HeadKind.MASKED_QUERIES,
            HeadKind.OBJECT_MASKS,
            HeadKind.INSTANCE_MASKS,
        ),
    ),
    Task(
        "image-segmentation",
        (Architecture.DESCRIBED_SEGMENTS,),
        HeadKind.NONE,
        "CLIPSegForImageSegmentation",
        ("segment",),
    ),
    Task(
        "pose-estimation",
        (Architecture.ENCODER,),
        HeadKind.POSE,
        "AutoModelForPoseEstimation",
        ("pose",),
    ),
    Task(
        "mask-generation",
        (Architecture.PROMPTABLE,),
        HeadKind.NONE,
        "AutoModelForMaskGeneration",
        ("masks", "all_masks"),
    ),
    Task(
        "zero-shot-image-classification",
        (Architecture.DUAL_ENCODER,),
        HeadKind.NONE,
        "AutoModelForZeroShotImageClassification",
        ("match", "embed_image", "embed"),
    ),
    Task(
        "zero-shot-object-detection",
        (Architecture.OPEN_VOCABULARY,),
        HeadKind.NONE,
        "AutoModelForZeroShotObjectDetection",
        ("find", "embed"),
    ),
    Task(
        "zero-shot-object-detection",
        (Architecture.GROUNDED,),
        HeadKind.NONE,
        "AutoModelForZeroShotObjectDetection",
        ("find",),
    ),
    Task(
        "visual-document-retrieval",
        (Architecture.VISUAL_RETRIEVER,),
        HeadKind.NONE,
        "AutoModelForPreTraining",
        ("rank_pages", "embed_pages", "embed_queries"),
    ),
)
