from ckpt_backends.mongodb.read import MongoBase


class KaflowStore(MongoBase): ...
