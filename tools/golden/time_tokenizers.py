#!/usr/bin/env python3
"""Times the tokenizers library on the text that bench/tokenizer_bench.cpp encodes, on one thread.

usage: time_tokenizers.py [FOLDER] [MODEL.gguf]    (in the environment of `make bench-env`)
"""

import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_golden import find_model, make_tokenizer  # noqa: E402


def texts(folder, limit=16 << 20):
    paths = sorted(os.path.join(top, name) for top, _, names in os.walk(folder) for name in names if name.endswith(".py"))
    found, total = [], 0
    for path in paths:
        if total > limit:
            break
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            found.append(file.read())
        total += os.path.getsize(path)
    return found, total


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "/usr/lib/python3.11"
    tokenizer = make_tokenizer(find_model(sys.argv[2:]), special=False)
    documents, size = texts(folder)
    for _ in range(3):
        start = time.perf_counter()
        tokens = sum(len(tokenizer.encode(document).ids) for document in documents)
        seconds = time.perf_counter() - start
        print(f"{size / seconds / 1e6:.2f} MB/s, {tokens / seconds:.0f} tokens/s, {len(documents)} files, {size} bytes")


if __name__ == "__main__":
    main()
