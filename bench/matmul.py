#!/usr/bin/python3
"""How fast are the f32 products of a gpt2 step, beside OpenBLAS, oneDNN and the processor's peak?

    bench/matmul.py [--build build] [--rounds 5] [--out bench/results/matmul.md]

Forward (F), gradient of data (D) and of weights (G) of every product of gpt2, at 256 and 1024 rows, with one and two
threads. All implementations take turns at each shape; a cell is the median over the rounds. A sum counts each shape as
often as a step has it."""

import time

from measure import LIBRARIES, MIB, Page, Worker, has_avx512, median, options

# columns of the input, columns of the result, how often in a step; the last one is the (tied) head
LAYERS = {"qkv": (768, 2304, 12), "proj": (768, 768, 12), "up": (768, 3072, 12), "down": (3072, 768, 12),
          "head": (768, 50257, 1)}


def products(rows):
    """Name, times in a step, and the product as the workers take it: rows, columns, depth, ta, tb."""
    for name, (inner, outer, count) in LAYERS.items():
        head = name == "head"  # its weight lies the other way round: (outer, inner)
        yield f"{name} F", count, (rows, outer, inner, 0, int(head))
        yield f"{name} D", count, (rows, inner, outer, 0, int(not head))
        yield f"{name} G", count, (outer, inner, rows, 1, 0) if head else (inner, outer, rows, 1, 0)


def workers(build):
    program = f"{build}/bench-matmul"
    found, missing = [Worker("snug", [program, "snug"])], []
    wide = {"OPENBLAS_CORETYPE": "SkylakeX"} if has_avx512() else {}
    peers = [("OpenBLAS pthread", "openblas", f"{LIBRARIES}/openblas-pthread/libopenblas.so.0", wide),
             ("OpenBLAS OpenMP", "openblas", f"{LIBRARIES}/openblas-openmp/libopenblas.so.0", wide),
             ("oneDNN", "onednn", "libdnnl.so.2", {}), ("oneDNN", "onednn", "libdnnl.so.3", {}),
             ("peak", "peak", "", {})]
    for name, kind, file, environment in peers:
        worker = Worker(name, [program, kind, file] if file else [program, kind], environment)
        if worker.ready is None:
            missing.append((name, worker.why))
        else:
            found.append(worker)
    names = {w.name for w in found}
    return found, [f"{name} ({why})" for name, why in missing if name not in names]


def measure(found, rounds, threads, page):
    base = {w.name: w.resident() for w in found}
    results = []
    for rows in (256, 1024):
        for count in threads:
            for name, times, product in products(rows):
                line = " ".join(str(n) for n in (*product, count))
                seconds, scratch = {w.name: [] for w in found}, 0
                for number in range(rounds + 1):
                    for w in found if number % 2 else found[::-1]:
                        answer = w.ask(line)
                        time.sleep(0.04)  # OpenBLAS's threads look out for more work for some 25 ms
                        if number:
                            seconds[w.name].append(answer[0])
                        if w.name == "snug":
                            scratch = int(answer[1])
                flops = 2.0 * product[0] * product[1] * product[2]
                results.append((rows, count, name, times, flops, {n: median(s) for n, s in seconds.items()}, scratch))
    taken = {w.name: w.resident("VmHWM") - base[w.name] for w in found}
    return results, taken


def by_type(workers, rounds, line):
    """What one product takes by type, all in turns: type -> (median seconds, bytes of scratch)."""
    seconds, scratch = {t: [] for t in workers}, {}
    for number in range(rounds + 1):
        for name, w in list(workers.items())[::1 if number % 2 else -1]:
            answer = w.ask(line)
            scratch[name] = int(answer[1])
            if number:
                seconds[name].append(answer[0])
    return {t: (median(seconds[t]), scratch[t]) for t in workers}


def compare_types(o, page, types, wide=(), commands={"f32": ["snug"]}):
    """The products of a step by type beside f32, which is the first, as two tables. `wide`: layers that are f32 in
    every type; they count only in the last column, a whole step. `commands`: what bench-matmul is told, where that is
    not the type (and a set of instructions)."""
    found = {t: Worker(t, [f"{o.build}/bench-matmul", *commands.get(t, t.split())]) for t in types}
    narrow, sums = types[1:], []
    page.head("rows", "threads", "product", *types, *(f"ratio {t}" for t in narrow),
              *(f"scratch, MiB: {t}" for t in types))
    for rows in (256, 1024):
        for threads in sorted({1, o.threads}):
            total, same, worst = dict.fromkeys(types, 0.0), 0.0, dict.fromkeys(narrow, (9.0, ""))
            for name, times, product in products(rows):
                line = " ".join(str(n) for n in (*product, threads))
                if name.split()[0] in wide:
                    same += times * by_type({"f32": found["f32"]}, o.rounds, line)["f32"][0]
                    continue
                took = by_type(found, o.rounds, line)
                flops = 2.0 * product[0] * product[1] * product[2]
                ratio = {t: took["f32"][0] / took[t][0] for t in narrow}
                page.row(rows, threads, name, *(f"{flops / took[t][0] * 1e-9:.0f}" for t in types),
                         *(f"{ratio[t]:.2f}" for t in narrow), *(f"{took[t][1] / MIB:.2f}" for t in types))
                total = {t: total[t] + times * took[t][0] for t in types}
                worst = {t: min(worst[t], (ratio[t], name)) for t in narrow}
            sums.append((rows, threads, *(f"{total['f32'] / total[t]:.2f}, worst {worst[t][0]:.2f} ({worst[t][1]})"
                                          for t in narrow),
                         *(f"{(total['f32'] + same) / (total[t] + same):.2f}" for t in narrow if wide)))
    for w in found.values():
        w.close()
    page.say("\nIn sum over a step, f32's time over that of the type"
             + (f"; then with what is f32 in all of them ({', '.join(wide)})" if wide else "") + ":\n")
    page.head("rows", "threads", *narrow, *(f"{t}, whole step" for t in narrow if wide))
    for row in sums:
        page.row(*row)


def report(page, found, results, taken):
    names = [w.name for w in found]
    peers = [n for n in names if n not in ("snug", "peak")]
    page.say("GF/s of each product; *ratio*: the time of the best library there, over snug's. *Scratch* is what the "
             "plan gives snug's kernel.\n")
    page.head("rows", "threads", "product", *names, "ratio", "scratch, MiB")
    for rows, count, name, _, flops, seconds, scratch in results:
        best = min((seconds[p] for p in peers), default=float("nan"))
        page.row(rows, count, name, *(f"{flops / seconds[n] * 1e-9:.0f}" for n in names),
                 f"{best / seconds['snug']:.2f}", f"{scratch / MIB:.2f}")
    page.say("\nIn sum over a step, GF/s. *Best of all*: the best library anew at each shape.\n")
    page.head("rows", "threads", *names, "snug / peak", "ratio to the best library", "ratio to the best of all",
              "worst ratio", "at", "largest scratch, MiB")
    for rows, count in dict.fromkeys((r[0], r[1]) for r in results):
        here = [r for r in results if r[:2] == (rows, count)]
        flops = sum(r[3] * r[4] for r in here)
        total = {n: sum(r[3] * r[5][n] for r in here) for n in names}
        cells = ["-"] * 4
        if peers:
            every = sum(r[3] * min(r[5][p] for p in peers) for r in here)
            worst = min((min(r[5][p] for p in peers) / r[5]["snug"], r[2]) for r in here)
            cells = [f"{min(total[p] for p in peers) / total['snug']:.2f}", f"{every / total['snug']:.2f}",
                     f"{worst[0]:.2f}", worst[1]]
        share = f"{total['peak'] / total['snug']:.2f}" if "peak" in total else "-"
        page.row(rows, count, *(f"{flops / total[n] * 1e-9:.0f}" for n in names), share, *cells,
                 f"{max(r[6] for r in here) / MIB:.2f}")
    page.say("\nWhat each process took beyond its operands in all of this: "
             + "; ".join(f"{n} {taken[n] / MIB:.0f} MiB" for n in peers) + ".")


def main():
    o = options(__doc__, "matmul", rounds=5)
    found, missing = workers(o.build)
    if found[0].ready is None:
        raise SystemExit(f"bench-matmul: {found[0].why}")
    page = Page("Matrix products", o.out, "f32.")
    results, taken = measure(found, o.rounds, sorted({1, o.threads}), page)
    report(page, found, results, taken)
    if missing:
        page.say("\nNot measured here: " + "; ".join(missing) + ".")
    page.write()
    for w in found:
        w.close()


if __name__ == "__main__":
    main()
