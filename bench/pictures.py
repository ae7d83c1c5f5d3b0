#!/usr/bin/python3
"""How many pictures a second does the loader make of files, and of the same pictures inside of Parquet?

    bench/pictures.py --python PYTHON [--build build] [--count 2000] [--side 224] [--rounds 5] [--out ...]

JPEGs of one size, drawn as in training and resized to it, by one thread and in random order, all in the file cache.
The forms take turns, COUNT pictures at a time. PYTHON has pyarrow and Pillow, which make the data."""

import subprocess
import tempfile

from measure import ROOT, Page, Worker, median, options

CODECS = "none", "snappy", "zstd"


def main():
    o = options(__doc__, "pictures", python="python3", count=2000, side=224, rounds=5)
    page = Page("Pictures out of files and out of Parquet", o.out,
                f"{o.count:,} JPEGs of {o.side} x {o.side}, one thread; medians of {o.rounds} rounds after one.")
    with tempfile.TemporaryDirectory() as folder:
        command = [o.python, ROOT / "bench/peers/pictures_write.py", folder, str(o.count), str(o.side), *CODECS]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        page.say(f"A picture has {int(made.stdout) / o.count / 1e3:.1f} kB. Scratch is that of one worker.\n")
        page.head("where", "pictures a second", "least", "most", "processor, ms a picture", "rate / files",
                  "processor / files", "list, bytes a picture", "scratch, KiB")
        places = {"files": f"{folder}/files", **{f"Parquet, {c}": f"{folder}/{c}.parquet" for c in CODECS}}
        workers = [Worker(name, [f"{o.build}/bench-pictures", path, o.side, 0, o.count])
                   for name, path in places.items()]
        answers = {w.name: [] for w in workers}
        for number in range(o.rounds + 1):
            for w in workers if number % 2 == 0 else workers[::-1]:
                answer = w.ask()
                if number:
                    answers[w.name].append(answer)
        base = [median(column) for column in zip(*answers["files"])]
        for w in workers:
            seconds, used = zip(*answers[w.name])
            held, scratch = (int(word) for word in w.ready)
            page.row(w.name, f"{o.count / median(seconds):,.0f}", f"{o.count / max(seconds):,.0f}",
                     f"{o.count / min(seconds):,.0f}", f"{median(used) / o.count * 1e3:.3f}",
                     f"{base[0] / median(seconds):.2f}", f"{median(used) / base[1]:.2f}", f"{held / o.count:.0f}",
                     f"{scratch / 1024:,.0f}")
            w.close()
    page.write()


if __name__ == "__main__":
    main()
