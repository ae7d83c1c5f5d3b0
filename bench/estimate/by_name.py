#!/usr/bin/env python3
"""Families that are read from their config.json by name: by_name.py SNUG [--built] [--recorded] [--names a,b]

Of families that have a builder the parameters that `snug estimate config.json` counts beside those of transformers' own
model on the meta device, at the sizes that its configuration has by itself, which are those of a published model. Of
the others the way that snug's sentence names: the program of `snug estimate --recipe` records a small model by its
config.json, and live bytes of the step on the CPU are compared with the step itself, as recorded.py does it. Needs
torch, transformers, and for the last ones timm and diffusers; a test's oracle only."""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers as t

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import recorded  # noqa: E402

BUILT = {  # configuration, class of the model, what is said beside the class's own sizes
    "gemma3_text": ("Gemma3TextConfig", "Gemma3ForCausalLM", {}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", {}),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", {}),
    "granite": ("GraniteConfig", "GraniteForCausalLM", {}),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}),
    "glm": ("GlmConfig", "GlmForCausalLM", {}),
    "glm4": ("Glm4Config", "Glm4ForCausalLM", {}),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM", {}),
    "falcon": ("FalconConfig", "FalconForCausalLM", {}),
    "falcon, 40B": ("FalconConfig", "FalconForCausalLM", dict(
        hidden_size=8192, num_hidden_layers=60, num_attention_heads=128, num_kv_heads=8,
        new_decoder_architecture=True)),
    "falcon, 11B": ("FalconConfig", "FalconForCausalLM", dict(
        hidden_size=4096, num_hidden_layers=60, num_attention_heads=32, num_kv_heads=8, new_decoder_architecture=True,
        num_ln_in_parallel_attn=1)),
    "olmo3": ("Olmo3Config", "Olmo3ForCausalLM", {}),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM", {}),
    "ministral": ("MinistralConfig", "MinistralForCausalLM", dict(head_dim=128)),
    "vaultgemma": ("VaultGemmaConfig", "VaultGemmaForCausalLM", {}),
    "seed_oss": ("SeedOssConfig", "SeedOssForCausalLM", {}),
    "ernie4_5": ("Ernie4_5Config", "Ernie4_5ForCausalLM", {}),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", "HunYuanDenseV1ForCausalLM", {}),
    "helium": ("HeliumConfig", "HeliumForCausalLM", {}),
    "arcee": ("ArceeConfig", "ArceeForCausalLM", {}),
    "jais2": ("Jais2Config", "Jais2ForCausalLM", {}),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM", {}),
    "cohere": ("CohereConfig", "CohereForCausalLM", {}),
    "cohere2": ("Cohere2Config", "Cohere2ForCausalLM", {}),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaForMaskedLM", {}),
    "camembert": ("CamembertConfig", "CamembertForMaskedLM", {}),
}

TEXT = dict(hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, vocab_size=384, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2, num_experts=4, moe_intermediate_size=64)
LATENT = dict(TEXT, num_key_value_heads=4, head_dim=8, kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=8,
              qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=4, n_shared_experts=1, moe_intermediate_size=64,
              first_k_dense_replace=1, num_experts_per_tok=2, n_group=2, topk_group=1)
BART = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=176, decoder_ffn_dim=176, vocab_size=384, max_position_embeddings=256, pad_token_id=0,
            bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
TOWER = dict(hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, image_size=64,
             patch_size=8)


def vision(text, **tower):
    return dict(text_config=text, vision_config=tower)


RECORDED = {  # how, configuration, class
    "gemma3": ("hf", "Gemma3Config", "Gemma3ForConditionalGeneration", dict(
        vision(dict(TEXT, model_type="gemma3_text"), **TOWER), mm_tokens_per_image=16)),
    "gpt_oss": ("hf", "GptOssConfig", "GptOssForCausalLM", TEXT | EXPERTS),
    "deepseek_v2": ("hf", "DeepseekV2Config", "DeepseekV2ForCausalLM", LATENT),
    "deepseek_v3": ("hf", "DeepseekV3Config", "DeepseekV3ForCausalLM", LATENT),
    "llama4_text": ("hf", "Llama4TextConfig", "Llama4ForCausalLM", TEXT | EXPERTS | dict(intermediate_size_mlp=176)),
    "qwen3_next": ("hf", "Qwen3NextConfig", "Qwen3NextForCausalLM", TEXT | EXPERTS | dict(
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
        shared_expert_intermediate_size=64, num_hidden_layers=4)),
    "qwen2_5_vl": ("hf", "Qwen2_5_VLConfig", "Qwen2_5_VLForConditionalGeneration", vision(
        dict(TEXT, rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[2, 3, 3])),
        hidden_size=64, depth=2, num_heads=4, intermediate_size=176, out_hidden_size=64)),
    "qwen3_vl": ("hf", "Qwen3VLConfig", "Qwen3VLForConditionalGeneration", vision(
        dict(TEXT, rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[2, 3, 3])),
        hidden_size=64, depth=2, num_heads=4, intermediate_size=176, out_hidden_size=64, deepstack_visual_indexes=[0])),
    "llava": ("hf", "LlavaConfig", "LlavaForConditionalGeneration", vision(
        dict(TEXT, model_type="llama"), model_type="clip_vision_model", **TOWER)),
    "whisper": ("hf", "WhisperConfig", "WhisperForConditionalGeneration", BART | dict(
        max_source_positions=128, max_target_positions=64, num_mel_bins=80)),
    "bart": ("hf", "BartConfig", "BartForConditionalGeneration", BART),
    "modernbert": ("hf", "ModernBertConfig", "ModernBertForMaskedLM", dict(TEXT, cls_token_id=1, sep_token_id=2)),
    "deberta": ("hf", "DebertaConfig", "DebertaForMaskedLM", TEXT),
    "deberta-v2": ("hf", "DebertaV2Config", "DebertaV2ForMaskedLM", TEXT),
    "mamba2": ("hf", "Mamba2Config", "Mamba2ForCausalLM", dict(
        hidden_size=64, num_hidden_layers=2, num_heads=8, head_dim=16, state_size=16, n_groups=1, vocab_size=384,
        chunk_size=32, pad_token_id=0)),
    "dinov2": ("hf", "Dinov2Config", "Dinov2ForImageClassification", TOWER),
    "swin": ("hf", "SwinConfig", "SwinForImageClassification", dict(
        image_size=64, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4)),
    "efficientnet_b0": ("timm", dict(architecture="efficientnet_b0", num_classes=10,
                                     pretrained_cfg=dict(input_size=[3, 64, 64]))),
    "UNet2DConditionModel": ("diffusers", dict(
        _class_name="UNet2DConditionModel", sample_size=16, in_channels=4, out_channels=4, layers_per_block=1,
        block_out_channels=[32, 64], cross_attention_dim=32, attention_head_dim=8, norm_num_groups=8,
        down_block_types=["CrossAttnDownBlock2D", "DownBlock2D"],
        up_block_types=["UpBlock2D", "CrossAttnUpBlock2D"])),
    "FluxTransformer2DModel": ("diffusers", dict(
        _class_name="FluxTransformer2DModel", in_channels=16, num_layers=1, num_single_layers=2, attention_head_dim=16,
        num_attention_heads=4, joint_attention_dim=32, pooled_projection_dim=32, guidance_embeds=True,
        axes_dims_rope=[4, 6, 6])),
}
LENGTHS = {"hf": (128, 64), "timm": (1,), "diffusers": (16, 8)}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "no answer").splitlines()[-1])
    return done.stdout


def answer(snug, *arguments):
    return json.loads(run(snug, "estimate", *arguments, "--json", "--quiet"))


def compare_built(snug, name, folder):
    config_class, model_class, more = BUILT[name]
    config = getattr(t, config_class)(**more)
    config.architectures = [model_class]
    config.to_json_file(folder / "config.json", use_diff=False)
    with torch.device("meta"):
        model = getattr(t, model_class)(config)
    theirs = sum(p.numel() for p in model.parameters())
    ours = answer(snug, str(folder / "config.json"), "--batch", "1", "--context", "64")["parameters"]
    print(f"| {name} | {theirs:,} | {ours - theirs:+,} |", flush=True)


def write_config(case, path):
    if len(case) == 2:  # not of transformers
        path.write_text(json.dumps(case[1]))
        return
    _, config_class, model_class, sizes = case
    config = getattr(t, config_class)(**sizes)
    config.architectures = [model_class]
    config.to_json_file(path, use_diff=False)


def program_of(snug, case, path, folder):
    """As a person gets and runs it, and then imported for the step itself."""
    step = folder / "step.py"
    step.write_text(run(snug, "estimate", "--recipe", case[0]))
    spec = importlib.util.spec_from_file_location("step", step)
    program = importlib.util.module_from_spec(spec)
    sys.argv[1:] = [str(path)]
    spec.loader.exec_module(program)
    return program


class Case:  # what recorded.measure wants
    def __init__(self, program, lengths):
        self.make_model, self.make_batch, self.loss_of = program.make_model, program.make_batch, program.loss_of
        self.lengths = lengths


def sentence_names_the_way(snug, path, how):
    done = subprocess.run([snug, "estimate", str(path)], capture_output=True, text=True)
    return done.returncode == 2 and f"--recipe {how} " in done.stderr


def compare_recorded(snug, name, folder):
    case, path = RECORDED[name], folder / "config.json"
    how, lengths = case[0], LENGTHS[case[0]]
    write_config(case, path)
    named = sentence_names_the_way(snug, path, how)
    program = program_of(snug, case, path, folder)
    cells = []
    for autocast in None, torch.bfloat16:
        out = folder / f"step-{autocast}.json"
        program.record(program.make_model, program.make_batch, program.loss_of,
                       lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, 3), lengths=lengths,
                       autocast=autocast, device="cpu", out=str(out))
        told = answer(snug, str(out), "--device", "cpu", "--batch", "2")
        was = recorded.measure(Case(program, lengths), 2, autocast)
        cells.append(f"{100 * (told['live_bytes']['likely'] / was - 1):+.2f} %")
    theirs = sum(p.numel() for p in program.make_model().parameters())
    print(f"| {name} | `--recipe {how}`{'' if named else ', not named'} | {told['parameters'] - theirs:+,} | "
          + " | ".join(cells) + " |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("snug")
    p.add_argument("--built", action="store_true")
    p.add_argument("--recorded", action="store_true")
    p.add_argument("--names", default="")
    a = p.parse_args()
    a.snug = str(pathlib.Path(a.snug).resolve())
    torch.set_num_threads(1)
    t.logging.set_verbosity_error()
    wanted = [n for n in a.names.split(";") if n]
    if a.built or not a.recorded:
        print("| family | parameters, by transformers | counted here |\n|---|---|---|")
    for name in BUILT if a.built or not a.recorded else ():
        with tempfile.TemporaryDirectory() as folder:
            if not wanted or name in wanted:
                compare_built(a.snug, name, pathlib.Path(folder))
    if a.recorded or not a.built:
        print("\n| family | way | parameters | f32 | autocast |\n|---|---|---|---|---|")
    for name in RECORDED if a.recorded or not a.built else ():
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                compare_recorded(a.snug, name, pathlib.Path(folder))
            except (Exception, SystemExit) as e:
                print(f"| {name} | none: {(str(e).splitlines() or [type(e).__name__])[0][:200].replace('|', '/')} |"
                      " | | |", flush=True)


if __name__ == "__main__":
    main()
