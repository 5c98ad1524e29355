"""Writes a graph as the folder that `sculler-gnn partition` reads (docs/training.md). Needs no NumPy."""
import array
import hashlib
import json
import math
import pathlib
import re
import sys

WORD = re.compile(r"[a-z][a-z0-9+-]+")


def npy(path, kind, values, columns=0):
    """kind: array's type code; f, I, Q, i or B (a mask of bytes)."""
    name = {"f": "<f4", "I": "<u4", "Q": "<u8", "i": "<i4", "B": "|b1"}[kind]
    data = values if isinstance(values, array.array) else array.array(kind, values)
    if sys.byteorder != "little":
        data.byteswap()
    rows = len(data) // columns if columns else len(data)
    shape = f"({rows}, {columns})" if columns else f"({rows},)"
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (name, shape)
    head += " " * ((64 - (10 + len(head) + 1) % 64) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode("latin1"))
        data.tofile(out)


def number(text, salt=b""):
    """64 bits of a text, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, salt=salt).digest(), "little")


def features(texts, dim):
    """Words hashed with a sign into `dim` places, rare words more, each row of length 1."""
    counts, words = {}, []
    for text in texts:
        found = set(WORD.findall(text.lower()))
        words.append(found)
        for word in found:
            counts[word] = counts.get(word, 0) + 1
    place = {}
    for word, count in counts.items():
        bits = number(word)
        weight = math.log(len(texts) / count) if count > 1 else 0.0  # a word of one node tells nothing
        place[word] = (bits % dim, weight if bits >> 63 else -weight)
    out = array.array("f", bytes(4 * dim * len(texts)))
    for i, found in enumerate(words):
        row = [0.0] * dim
        for word in sorted(found):
            at, weight = place[word]
            row[at] += weight
        length = math.sqrt(sum(x * x for x in row))
        if length > 0:
            out[i * dim:(i + 1) * dim] = array.array("f", [x / length for x in row])
    return out


def write(folder, name, edges, texts, classes, dim, train):
    """edges: pairs of nodes in any order and number; texts and classes: one a node (classes are names, None: no label);
    train: the share of nodes that is trained on, as many others are tested on."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    n = len(texts)
    near = [set() for _ in range(n)]
    for u, v in edges:
        if u != v:
            near[u].add(v)
            near[v].add(u)
    offsets, neighbours = array.array("Q", [0]), array.array("I")
    for around in near:
        neighbours.extend(sorted(around))
        offsets.append(len(neighbours))
    names = sorted({c for c in classes if c is not None})
    index = {c: i for i, c in enumerate(names)}
    labels = array.array("i", [-1 if c is None else index[c] for c in classes])
    drawn = [number(str(v), b"train") / 2**64 for v in range(n)]
    npy(folder / "offsets.npy", "Q", offsets)
    npy(folder / "neighbours.npy", "I", neighbours)
    npy(folder / "features.npy", "f", features(texts, dim), dim)
    npy(folder / "labels.npy", "i", labels)
    npy(folder / "train.npy", "B", [1 if d < train and c >= 0 else 0 for d, c in zip(drawn, labels)])
    npy(folder / "test.npy", "B", [1 if train <= d < 2 * train and c >= 0 else 0 for d, c in zip(drawn, labels)])
    (folder / "graph.json").write_text(json.dumps({"version": 1, "name": name, "nodes": n, "edges": len(neighbours) // 2,
                                                   "dim": dim, "classes": max(1, len(names))}, indent=2) + "\n")
    most = max((len(around) for around in near), default=0)
    print(f"{folder}: {name}, {n} nodes, {len(neighbours) // 2} edges, {len(names)} classes, largest degree {most}")
