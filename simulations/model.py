"""A tiny model made from nothing, so that a real engine can run without a download.

A Qwen2 of one layer and one head with random weights and a tokenizer with one token a byte.
What it says is noise, but every token of the prompt has a say in it (with vLLM's own dummy
weights only the last one has), so a wrong block in the cache would show.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 320
"""256 bytes, three special tokens, the rest unused."""

BYTES = 256
"""Token ids below this are the bytes themselves."""


HIDDEN = 32
"""Width of the model, and of its one head."""


def write_model(folder: Path) -> Path:
    """Write config, tokenizer and weights into ``folder``, always the same; returns it."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(_weights(), folder / "model.safetensors", metadata={"format": "pt"})
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    _write(
        folder / "config.json",
        {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "hidden_size": HIDDEN,
            "intermediate_size": 2 * HIDDEN,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
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


def _weights() -> dict[str, NDArray[np.float32]]:
    """Random weights under the names that vLLM expects of a Qwen2."""
    rng = np.random.default_rng(0)

    def random(rows: int, columns: int, gain: float = 1.0) -> NDArray[np.float32]:
        return rng.normal(0.0, gain / columns**0.5, (rows, columns)).astype(np.float32)

    layer = "model.layers.0"
    weights = {
        "model.embed_tokens.weight": random(VOCABULARY, HIDDEN),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
        "lm_head.weight": random(VOCABULARY, HIDDEN),
        f"{layer}.input_layernorm.weight": np.ones(HIDDEN, np.float32),
        f"{layer}.post_attention_layernorm.weight": np.ones(HIDDEN, np.float32),
        f"{layer}.mlp.gate_proj.weight": random(2 * HIDDEN, HIDDEN),
        f"{layer}.mlp.up_proj.weight": random(2 * HIDDEN, HIDDEN),
        f"{layer}.mlp.down_proj.weight": random(HIDDEN, 2 * HIDDEN),
        f"{layer}.self_attn.o_proj.weight": random(HIDDEN, HIDDEN, 4.0),
    }
    for name in ("q_proj", "k_proj", "v_proj"):
        weights[f"{layer}.self_attn.{name}.weight"] = random(HIDDEN, HIDDEN, 2.0)
        weights[f"{layer}.self_attn.{name}.bias"] = np.zeros(HIDDEN, np.float32)
    return weights


def _letters() -> list[str]:
    """The letter that stands for each byte in a byte-level tokenizer's vocabulary."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(BYTES)]


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
