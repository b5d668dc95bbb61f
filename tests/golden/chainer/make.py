"""Writes the files beside this script with Chainer 7.8.1 (NumPy 1.23.5):

mlp.npz       a model of three Linears, kept by serializers.save_npz
cnn.npz       Convolution2D, BatchNormalization, Deconvolution2D, EmbedID, LayerNormalization,
              GroupNormalization
lazy.npz      a model in which one Linear has no weights yet: they are kept as a pickled None
snapshot.npz  a trainer's snapshot, after some steps of Adam on the first model
results.npz   inputs, and what each of the models makes of them in test mode

    python make.py
"""

import os
import shutil
import tempfile

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import training
from chainer.training import extensions

HERE = os.path.dirname(os.path.abspath(__file__))


class Mlp(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(3, 5)
            self.l2 = L.Linear(5, 4)
            self.l3 = L.Linear(4, 2, nobias=True)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


class Cnn(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(7, 6)
            self.conv = L.Convolution2D(1, 4, (3, 2))
            self.bn = L.BatchNormalization(4, eps=1e-5)
            self.group = L.GroupNormalization(2, 4, eps=1e-5)
            self.deconv = L.Deconvolution2D(4, 1, (3, 2))
            self.layer = L.LayerNormalization(6, eps=1e-5)

    def forward(self, ids):
        x = self.embed(ids)[:, None]
        h = F.relu(self.group(self.bn(self.conv(x))))
        y = self.deconv(h)
        return self.layer(y.reshape(-1, 6))


def randomize(model, random):
    """Parameters that are none of the usual first values."""
    for parameter in model.params():
        parameter.array[...] = random.normal(0.3, 0.5, parameter.shape)


def predict(model, x):
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        return model(x).array


def main():
    random = np.random.RandomState(5)
    np.random.seed(5)
    x = random.normal(size=(6, 3)).astype(np.float32)
    target = random.randint(0, 2, 6).astype(np.int32)
    ids = random.randint(0, 7, (3, 5)).astype(np.int32)

    mlp, cnn = Mlp(), Cnn()
    randomize(mlp, random)
    randomize(cnn, random)
    cnn.cleargrads()
    for _ in range(3):
        cnn(random.randint(0, 7, (8, 5)).astype(np.int32))
    chainer.serializers.save_npz(os.path.join(HERE, "mlp.npz"), mlp)
    chainer.serializers.save_npz(os.path.join(HERE, "cnn.npz"), cnn)
    lazy = chainer.Chain(ready=L.Linear(2, 1), late=L.Linear(None, 1))
    chainer.serializers.save_npz(os.path.join(HERE, "lazy.npz"), lazy)
    results = {"x": x, "mlp": predict(mlp, x), "ids": ids, "cnn": predict(cnn, ids)}

    model = L.Classifier(mlp)
    optimizer = chainer.optimizers.Adam().setup(model)
    iterator = chainer.iterators.SerialIterator(chainer.datasets.TupleDataset(x, target), 2)
    folder = tempfile.mkdtemp()
    updater = training.StandardUpdater(iterator, optimizer)
    trainer = training.Trainer(updater, (2, "epoch"), out=folder)
    snapshot = extensions.snapshot(filename="snapshot.npz")
    trainer.extend(snapshot, trigger=(2, "epoch"))
    trainer.extend(extensions.LogReport(trigger=(1, "epoch")))
    trainer.run()
    shutil.move(os.path.join(folder, "snapshot.npz"), os.path.join(HERE, "snapshot.npz"))
    shutil.rmtree(folder)
    results["trained"] = predict(mlp, x)
    np.savez(os.path.join(HERE, "results.npz"), **results)


if __name__ == "__main__":
    main()
