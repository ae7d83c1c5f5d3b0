#!/usr/bin/python3
"""How fast is attention over a cache in blocks?

    bench/paged.py [--build build] [--before BUILD] [--rounds 3] [--out bench/results/paged.md]

Of gpt2 (12 heads of 64) and of a Llama of 1B parameters (32 heads of 64 that share 8 of keys), one layer. Rows are
the last ones of their texts: one row of one text, as in writing; 8 rows of as many texts; 256 rows of one text, as a
part of a prompt. GB/s: keys and values of the texts as stored, read once, by the time of a call. GFLOP/s: of both
products.
With --before another build is measured in turns, and its time is given as a multiple."""

from measure import Page, Worker, median, options

MODELS = {"gpt2": (12, 12, 64), "llama 1B": (32, 8, 64)}
ROWS = ((1, 1), (8, 8), (256, 1))
CONTEXTS = (128, 512, 1024, 4096)


def flops(rows, texts, context, heads, size):
    each = rows // texts
    return 4 * heads * size * texts * sum(context - i for i in range(each))


def cases():
    for model, sizes in MODELS.items():
        for kind in ("f32", "bf16", "f16", "i8"):
            for rows, texts in ROWS:
                for context in CONTEXTS:
                    if context >= rows // texts:
                        yield model, sizes, kind, rows, texts, context


def main():
    o = options(__doc__, "paged", rounds=3, before="", types="", models="")
    page = Page("Attention over blocks", o.out, f"Medians of {o.rounds} rounds after one; a call is the quarter of 20 "
                "that took least.")
    builds = [o.build] + ([o.before] if o.before else [])
    workers = [Worker(b, [f"{b}/bench-paged"]) for b in builds]
    page.head("model", "cache", "rows", "texts", "context", "threads", "us", "GB/s", "GFLOP/s",
              *(["time before"] if o.before else []))
    for model, (heads, kv_heads, size), kind, rows, texts, context in cases():
        if (o.types and kind not in o.types.split(",")) or (o.models and model not in o.models.split(",")):
            continue
        for threads in sorted({1, o.threads}):
            seconds = [[] for _ in workers]
            for number in range(o.rounds + 1):
                for i, w in enumerate(workers):
                    took, size_read = w.ask(f"{kind} {rows} {texts} {context} {heads} {kv_heads} {size} {threads}")
                    if number:
                        seconds[i].append(took)
            now = median(seconds[0])
            page.row(model, kind, rows, texts, context, threads, f"{now * 1e6:,.0f}", f"{size_read / now * 1e-9:.1f}",
                     f"{flops(rows, texts, context, heads, size) / now * 1e-9:.0f}",
                     *([f"{median(seconds[1]) / now:.2f}"] if o.before else []))
    page.write()
    for w in workers:
        w.close()


if __name__ == "__main__":
    main()
