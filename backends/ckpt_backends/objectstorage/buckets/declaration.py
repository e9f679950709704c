"""Declares buckets of S3 with the objects of `ObjectStorageSaver`."""

from ckpt_backends.declaration import Backend
from ckpt_backends.objectstorage import engine

BACKEND = Backend(
    title="S3",
    layouts={engine.BUCKET: engine.CAN},
    schemes=(engine.S3,),
    driver="s3fs",
    extra="s3",
    params=engine.PARAMS,
    forms={engine.BUCKET: (engine.FORM,)},
    records=engine.RECORDS,
    edits=engine.EDITS,
    checkpoints=engine.OPEN,
    changes=engine.OPEN_WRITABLE,
)
