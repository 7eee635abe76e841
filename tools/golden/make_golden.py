#!/usr/bin/env python3
"""Writes the golden files of the tokenizer and of the target with implementations that are not ours.

usage: make_golden.py [MODEL.gguf]    (in the environment of `make bench-env`)

tests/golden/smollm2_tokens.json    token ids by the tokenizers library: the vocabulary and merges of
                                    the file, digits split one by one, byte-level BPE
tests/golden/smollm2_logprobs.json  log-probabilities by transformers in fp32: for each position the
                                    next token's and the ten likeliest
"""

import glob
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "golden")
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"

HAND_WRITTEN = [
    "", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n", "\n ", "a", "1", " 1", "  1", "   12", "x  7",
    "12345", "3.14159", "1,000,000", "0x1F4", "v2.0.1", "a1b2c3", "1st 2nd 3rd", "x²+y³", "½ cup", "Ⅷ", "٣٤", "१२३",
    "Hello, world!", " Hello", "don't", "I'll we've they're it's I'd I'm", "DON'T", "'s", "''s", "rock'n'roll", "’s",
    "def f(x):\n    return x + 1\n", "if  a ==  3 :", "for i in range(10):\n\tprint(i)\n", "x = [1, 2, 3]  # list",
    "        deep", "    \n    x", "a\n\n\n\nb", "trailing   ", "   \t  mixed \t blanks", "\x0b\x0c", "a\x85b", "a\xa0b",
    "a\u2003b", "a\u2028b\u2029c", "a\u3000b", "a\u180eb", "\u200b", "a\u200db", "\ufeffBOM", "tab\tthen 5", "5 \t6",
    "café", "naïve coöperation", "e\u0301", "Zażółć gęślą jaźń", "ÀÉÎÕÜ", "ß", "Ελληνικά", "Русский текст", "עברית",
    "العربية ٤٢", "हिन्दी", "ไทย", "한국어", "日本語の文章です。", "中文字符，没有空格。", "你好 世界 2024年5月", "ｆｕｌｌ　ｗｉｄｔｈ １２",
    "🙂", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "a🙂b 🙂🙂", "👍🏽", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𝟘𝟙𝟚", "🄰", "\U000e0041", "∑∫√≈", "→ ← ↔", "…—–", "€£¥",
    "!!!", "?!", "...", "-----", "=====", "/* c */", "// x", "#!/bin/sh", "a->b::c", "<<EOF", "{{}}", "[[ ]]", "()()",
    "http://example.com/a?b=1&c=2", "user@example.com", "C:\\path\\file", "/usr/lib/x86_64", "__init__", "self._x",
    "CamelCaseName", "snake_case_name", "SCREAMING_CASE", "kebab-case", "aAaAaA", "AAAAAAAA", "zzzzzzzzzzzzzzzz",
    "a" * 100, "ab" * 64, " " * 100, "\n" * 50, "9" * 60, "é" * 40, "🙂" * 20, "!" * 70, "Ġ", "Ċ", "ĠĠ t", "â", "\x00",
    "\x01\x02\x03", "!\x04!", "a\x06b", "\x13\x14", "\x7f", "\x1b[31mred\x1b[0m", "\U0010ffff", "\U00040000",
    "<|endoftext|>", "<|im_start|>user\nhi<|im_end|>\n", "a<|im_end|>b", " <|im_end|> ", "<|im_end|><|im_end|>",
    "<|im_start", "<|", "|>", "<|im_start|><|im_start|", "<repo_name>x<file_sep>y", "<empty_output>", "<filename>a.py",
    "<gh_stars>10", "<issue_start><issue_comment>ok<issue_closed>", "12<|endoftext|>34", "  <|endoftext|>  ",
    "The quick brown fox jumps over the lazy dog.", "It was the best of times, it was the worst of times",
    "lambda x: x**2", "x=y=z=0;", "a,b;c:d", "100%", "$5.00", "#1", "@me", "~/.bashrc", "^$", "a_1_b_2", "i+=1", "i++",
    "return\n", "\n\treturn", "\n  return 0", "}\n\n", "};\n", "\");\n", "'''doc'''", '"""doc"""', "r'\\d+'", "f'{x:>10}'",
    "print('it''s')", "we 'll", "we  'll", "o'clock's", "x's1's", "5's", "1'23", "n't", "'S 'T 'RE", "''ve", "'l", "'vest",
]

TEXTS = [
    "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a\n\n\nassert gcd(12, 18) == 6\n",
    "The tide went out at dawn, and the boats in the harbour settled one after another into the mud. "
    "Nobody hurried: there were nets to mend and 3 hours until the water came back.",
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    "The capital of France is Paris.<|im_end|>\n",
]


def vocabulary(path):
    from gguf import GGUFReader

    fields = GGUFReader(path).fields
    return [fields["tokenizer.ggml." + key].contents() for key in ("tokens", "merges", "token_type")]


def make_tokenizer(path, special):
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    tokens, merges, types = vocabulary(path)
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    if special:
        tokenizer.add_special_tokens(
            [AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def code_strings(count):
    """Lines of this script and runs of them: code with all its blanks."""
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().split("\n")
    return ["\n".join(lines[i:i + 1 + i % 3]) for i in range(0, len(lines), max(1, len(lines) // count))]


def write(name, value):
    os.makedirs(GOLDEN, exist_ok=True)
    with open(os.path.join(GOLDEN, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


def rounded(value):
    return float(f"{value:.6g}")


def logprobs(path, tokenizer):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32,
        attn_implementation="eager")
    result = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        with torch.inference_mode():
            table = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
        positions = []
        for at, following in enumerate(ids[1:]):
            top = table[at].topk(10)
            positions.append({"next": rounded(table[at, following].item()), "top": top.indices.tolist(),
                              "top_logprobs": [rounded(v) for v in top.values.tolist()]})
        result.append({"text": text, "ids": ids, "positions": positions})
    return result


def find_model(arguments):
    if arguments:
        return os.path.abspath(arguments[0])
    found = glob.glob(os.path.join(ROOT, ".*env", "lib", "python3*", "site-packages", "*", NAME))
    if not found:
        sys.exit(f"{NAME} is not installed: run `make setup`, or give its path")
    return sorted(found)[0]


def main():
    path = find_model(sys.argv[1:])
    with_special, plain = make_tokenizer(path, True), make_tokenizer(path, False)
    strings = HAND_WRITTEN + code_strings(60)
    write("smollm2_tokens.json", [{"text": s, "special": with_special.encode(s).ids, "plain": plain.encode(s).ids}
                                  for s in strings])
    write("smollm2_logprobs.json", logprobs(path, with_special))
    print(f"{len(strings)} strings, {len(TEXTS)} texts")


if __name__ == "__main__":
    main()
