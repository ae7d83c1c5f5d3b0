"""Pictures as JPEG files of two classes, and the same in Parquet as Hugging Face's datasets write them (groups of 100
rows), once for each codec: pictures_write.py FOLDER COUNT SIDE CODEC… Needs pyarrow and Pillow."""

import io
import json
import pathlib
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageFilter


def picture(draw, side):
    """Spots of colour with some noise: as many bytes as a photograph of the size has."""
    image = Image.effect_noise((side, side), draw.uniform(40, 90)).convert("RGB").filter(ImageFilter.GaussianBlur(1))
    for _ in range(12):
        spot = Image.new("RGB", (draw.randrange(10, side // 2),) * 2, tuple(draw.randrange(256) for _ in range(3)))
        at = draw.randrange(side), draw.randrange(side)
        part = image.crop((*at, at[0] + spot.width, at[1] + spot.height))
        image.paste(Image.blend(part, spot, 0.6), at)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=85)
    return out.getvalue()


def main(folder, count, side, *codecs):
    draw, folder, kinds = random.Random(1), pathlib.Path(folder), ["a", "b"]
    cells, labels = [], []
    for label, kind in enumerate(kinds):
        (folder / "files" / kind).mkdir(parents=True)
        for i in range(int(count) // 2):
            name, data = f"{i:05d}.jpg", picture(draw, int(side))
            (folder / "files" / kind / name).write_bytes(data)
            cells.append({"bytes": data, "path": name})
            labels.append(label)
    said = {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": kinds, "_type": "ClassLabel"}}}}
    schema = pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())],
                       metadata={"huggingface": json.dumps(said)})
    table = pa.Table.from_arrays([pa.array(cells, schema.field(0).type), pa.array(labels)], schema=schema)
    for codec in codecs:
        pq.write_table(table, folder / f"{codec}.parquet", compression=codec, row_group_size=100)
    print(sum(len(c["bytes"]) for c in cells))


if __name__ == "__main__":
    main(*sys.argv[1:])
