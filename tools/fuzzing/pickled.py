"""Mutations of torch.save files: of the operations of their pickles, and of an archive's members."""

import io
import pickletools
import zipfile
from random import Random

from fuzzing import raw_bytes

LEGACY = 5  # pickles at the start of a file in the format before PyTorch 1.6
OPERATIONS = (
    *(b"N", b"\x88", b"}", b"]", b")", b"(", b"t", b"\x85", b"\x86", b"\x87", b"R", b"Q", b"b", b"s", b"u"),
    *(b"a", b"e", b".", b"0", b"2", b"h\x00", b"h\x05", b"q\x00", b"r\xff\xff\xff\xff", b"cos\nsystem\n"),
    *(b"ctorch\nHalfStorage\n", b"ccollections\nOrderedDict\n)R", b"\x93", b"\x81", b"\x80\x04"),
    *(b"X\x01\x00\x00\x000", b"X\xff\xff\xff\x7f", b"G\x7f\xf8\x00\x00\x00\x00\x00\x00", b"U\x01\xff"),
)
NUMBERS = (0, 1, 2, 3, 7, 48, 311, -1, 255, 65536, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**64, 2**300)


def change(random: Random, data: bytes) -> tuple[bytes, str]:
    """Other operations, numbers, members or bytes, in either format."""
    if random.random() < 0.15:
        return raw_bytes.change(random, data)
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return _operations(random, data, LEGACY)
    if random.random() < 0.15:
        place = data.rindex(b"PK\x01\x02", 0, data.rindex(b"PK\x01\x02")) - random.choice((0, 100, 300))
        tail, note = raw_bytes.change(random, data[place:])
        return data[:place] + tail, f"directory: {note}"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    [pickled] = [name for name in members if name.endswith("/data.pkl")]
    name = random.choice(list(members))
    kind = random.randrange(8)
    if kind < 4:
        members[pickled], note = _operations(random, members[pickled], 1)
    elif kind == 4:
        members[name], note = raw_bytes.change(random, members[name])
        note = f"{name}: {note}"
    elif kind == 5:
        other = random.choice(list(members))
        members[name], members[other] = members[other], members[name]
        note = f"{name} and {other} exchanged"
    else:
        new = random.choice(("x", "../canary", f"{name}/data.pkl", name.upper(), "a/data.pkl", "\u2028"))
        members[new], note = members.pop(name), f"{name} renamed to {new!r}"
    file, stored = io.BytesIO(), random.random() < 0.9
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as archive:
        for member, inner in members.items():
            archive.writestr(member, inner)
    return file.getvalue(), note


def _operations(random: Random, data: bytes, pickles: int) -> tuple[bytes, str]:
    """One to three operations of the leading pickles removed, duplicated, exchanged or replaced."""
    stream, starts = io.BytesIO(data), []
    for _ in range(pickles):
        starts += [place for _, _, place in pickletools.genops(stream)]
    spans = list(zip(starts, [*starts[1:], stream.tell()], strict=True))
    pieces, rest, notes = [data[first:last] for first, last in spans], data[stream.tell() :], []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        place = random.randrange(len(pieces))
        kind, new = random.randrange(5), random.choice(OPERATIONS)
        if kind == 0:
            new = b""
        elif kind == 1:
            new = pieces[place] * random.choice((2, 3, 5000))
        elif kind == 2:
            new = pieces[random.randrange(len(pieces))]
        elif kind == 3:
            new = _number(random.choice(NUMBERS))
            place = random.choice([i for i, piece in enumerate(pieces) if piece[:1] in b"KMJ\x8a" and piece])
        notes.append(f"{new[:12]!r} in place of {pieces[place][:12]!r}, operation {place}")
        pieces[place] = new
    return b"".join(pieces) + rest, ", ".join(notes)


def _number(value: int) -> bytes:
    octets = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(octets)]) + octets
