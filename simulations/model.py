"""A tiny model made from nothing, so that a real engine can run without a download.

A Qwen2 of one layer and one head with random weights (vLLM's ``--load-format dummy`` fills
them in) and a tokenizer with one token a byte. What it says is noise; its cache is real.
"""

from __future__ import annotations

import json
from pathlib import Path

VOCABULARY = 320
"""256 bytes, three special tokens, the rest unused."""

BYTES = 256
"""Token ids below this are the bytes themselves."""


def write_model(folder: Path, *, hidden: int = 32, layers: int = 1) -> Path:
    """Write config and tokenizer into ``folder``; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    _write(
        folder / "config.json",
        {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "hidden_size": hidden,
            "intermediate_size": 4 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": hidden // 32,
            "num_key_value_heads": hidden // 32,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 65536,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": False,
            "torch_dtype": "float32",
            "bos_token_id": BYTES,
            "eos_token_id": BYTES,
        },
    )
    added: list[dict[str, object]] = [
        {
            "id": BYTES + index,
            "content": word,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for index, word in enumerate(specials)
    ]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    _write(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "added_tokens": added,
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "vocab": {letter: byte for byte, letter in enumerate(_letters())},
                "merges": [],
            },
        },
    )
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": specials[0],
            "pad_token": specials[0],
            "model_max_length": 65536,
            "chat_template": (
                "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
                "{% endfor %}<|im_start|>assistant\n"
            ),
        },
    )
    return folder


def _letters() -> list[str]:
    """The letter that stands for each byte in a byte-level tokenizer's vocabulary."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(BYTES)]


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
