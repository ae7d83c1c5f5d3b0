"""Small models of transformers, timm and diffusers, with random weights: what recorded.py compares."""

import diffusers as d
import torch
import transformers as t

TEXT = dict(hidden_size=64, intermediate_size=176, num_hidden_layers=4, num_attention_heads=4, vocab_size=384,
            max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
SHARED = TEXT | dict(num_key_value_heads=2, head_dim=16)
LENGTHS = (128, 64)


class Case:
    def __init__(self, model, config, batch, lengths=LENGTHS):
        self.lengths, self.make_batch = lengths, batch
        for key in ("use_cache",):
            if hasattr(config, key):
                setattr(config, key, False)
        self.make_model = lambda: model(config)

    def loss_of(self, model, batch):
        return model(**batch).loss


def tokens(size, length):
    ids = torch.zeros(size, length, dtype=torch.long) + 3
    return {"input_ids": ids, "labels": torch.zeros(size, length, dtype=torch.long) + 3}


def answers(size, length):
    return tokens(size, length) | {"labels": torch.zeros(size, length // 2, dtype=torch.long) + 3}


def labelled(size, length):
    return {"input_ids": torch.zeros(size, length, dtype=torch.long) + 3,
            "labels": torch.zeros(size, dtype=torch.long)}


def pixels(side=64):
    return lambda size, length: {"pixel_values": torch.zeros(size, 3, side, side),
                                 "labels": torch.zeros(size, dtype=torch.long)}


# Models and configurations by name: transformers loads the code of each where it is first asked for.

def text(model, config, base=SHARED, **more):
    return lambda: Case(getattr(t, model), getattr(t, config)(**(base | more)), tokens)


def image(model, config, side=64, **more):
    return lambda: Case(getattr(t, model), getattr(t, config)(**more), pixels(side), (1,))


def classes(model, config, base=TEXT, **more):
    return lambda: Case(getattr(t, model), getattr(t, config)(**(base | more | dict(num_labels=3))), labelled)


def sound(size, length):
    return {"input_features": torch.zeros(size, 80, 2 * length),
            "labels": torch.zeros(size, 32, dtype=torch.long) + 3}


VIT = dict(hidden_size=64, intermediate_size=176, num_hidden_layers=4, num_attention_heads=4, image_size=64,
           patch_size=8)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2, num_experts=4, moe_intermediate_size=64)
GPT = dict(n_embd=64, n_layer=4, n_head=4, n_positions=256, vocab_size=384, bos_token_id=1, eos_token_id=2)
T5 = dict(d_model=64, decoder_start_token_id=0, pad_token_id=0, d_kv=16, d_ff=176, num_layers=3, num_decoder_layers=3,
          num_heads=4, vocab_size=384)
BART = dict(d_model=64, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=176, decoder_ffn_dim=176, vocab_size=384, max_position_embeddings=256, pad_token_id=0,
            bos_token_id=1, eos_token_id=2)

DEEPSEEK = dict(num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, n_group=1,
                topk_group=1, moe_intermediate_size=64, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32,
                qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16)


def seen(size, length):
    ids = torch.zeros(size, length, dtype=torch.long) + 3
    ids[:, :64] = 4  # the picture
    return {"input_ids": ids, "labels": torch.zeros(size, length, dtype=torch.long) + 3,
            "pixel_values": torch.zeros(size, 3, 64, 64)}


def heard(size, length):
    return {"input_values": torch.zeros(size, length), "labels": torch.zeros(size, dtype=torch.long)}


TRANSFORMERS = {
    "GPT2LMHeadModel": lambda: Case(t.GPT2LMHeadModel, t.GPT2Config(**GPT), tokens),
    "LlamaForCausalLM": text("LlamaForCausalLM", "LlamaConfig"),
    "BertForMaskedLM": text("BertForMaskedLM", "BertConfig", TEXT),
    "T5ForConditionalGeneration": lambda: Case(t.T5ForConditionalGeneration, t.T5Config(**T5), answers),
    "ViTForImageClassification": image("ViTForImageClassification", "ViTConfig", **VIT),
    "MixtralForCausalLM": text("MixtralForCausalLM", "MixtralConfig", **EXPERTS),
    "WhisperForConditionalGeneration": lambda: Case(
        t.WhisperForConditionalGeneration,
        t.WhisperConfig(**BART | dict(max_source_positions=128, max_target_positions=64, num_mel_bins=80,
                                      decoder_start_token_id=1)), sound, (128,)),
    "MambaForCausalLM": lambda: Case(t.MambaForCausalLM, t.MambaConfig(
        hidden_size=64, num_hidden_layers=2, vocab_size=384, state_size=16, pad_token_id=0), tokens, (32, 16)),
    "Gemma3ForCausalLM": text("Gemma3ForCausalLM", "Gemma3TextConfig", sliding_window=64),
    "Qwen3ForCausalLM": text("Qwen3ForCausalLM", "Qwen3Config"),
    "Qwen2ForCausalLM": text("Qwen2ForCausalLM", "Qwen2Config"),
    "MistralForCausalLM": text("MistralForCausalLM", "MistralConfig"),
    "PhiForCausalLM": text("PhiForCausalLM", "PhiConfig"),
    "Phi3ForCausalLM": text("Phi3ForCausalLM", "Phi3Config"),
    "GemmaForCausalLM": text("GemmaForCausalLM", "GemmaConfig"),
    "Gemma2ForCausalLM": text("Gemma2ForCausalLM", "Gemma2Config"),
    "OlmoForCausalLM": text("OlmoForCausalLM", "OlmoConfig"),
    "Olmo2ForCausalLM": text("Olmo2ForCausalLM", "Olmo2Config"),
    "StableLmForCausalLM": text("StableLmForCausalLM", "StableLmConfig"),
    "Starcoder2ForCausalLM": text("Starcoder2ForCausalLM", "Starcoder2Config"),
    "GraniteForCausalLM": text("GraniteForCausalLM", "GraniteConfig"),
    "Glm4ForCausalLM": text("Glm4ForCausalLM", "Glm4Config"),
    "SmolLM3ForCausalLM": text("SmolLM3ForCausalLM", "SmolLM3Config"),
    "CohereForCausalLM": text("CohereForCausalLM", "CohereConfig"),
    "GPTNeoXForCausalLM": text("GPTNeoXForCausalLM", "GPTNeoXConfig", TEXT),
    "FalconForCausalLM": text("FalconForCausalLM", "FalconConfig", TEXT),
    "BloomForCausalLM": lambda: Case(t.BloomForCausalLM, t.BloomConfig(
        hidden_size=64, n_layer=4, n_head=4, vocab_size=384, bos_token_id=1, eos_token_id=2), tokens),
    "OPTForCausalLM": lambda: Case(t.OPTForCausalLM, t.OPTConfig(
        hidden_size=64, ffn_dim=176, num_hidden_layers=4, num_attention_heads=4, vocab_size=384,
        max_position_embeddings=256, word_embed_proj_dim=64), tokens),
    "Qwen3MoeForCausalLM": text("Qwen3MoeForCausalLM", "Qwen3MoeConfig", **EXPERTS),
    "OlmoeForCausalLM": text("OlmoeForCausalLM", "OlmoeConfig", **EXPERTS),
    "GptOssForCausalLM": text("GptOssForCausalLM", "GptOssConfig", **EXPERTS),
    "RobertaForMaskedLM": text("RobertaForMaskedLM", "RobertaConfig", TEXT),
    "XLMRobertaForMaskedLM": text("XLMRobertaForMaskedLM", "XLMRobertaConfig", TEXT),
    "DistilBertForMaskedLM": lambda: Case(t.DistilBertForMaskedLM, t.DistilBertConfig(
        dim=64, hidden_dim=176, n_layers=4, n_heads=4, vocab_size=384, max_position_embeddings=256), tokens),
    "ElectraForMaskedLM": text("ElectraForMaskedLM", "ElectraConfig", TEXT, embedding_size=64),
    "AlbertForMaskedLM": text("AlbertForMaskedLM", "AlbertConfig", TEXT, embedding_size=32),
    "DebertaV2ForMaskedLM": text("DebertaV2ForMaskedLM", "DebertaV2Config", TEXT),
    "ModernBertForMaskedLM": text("ModernBertForMaskedLM", "ModernBertConfig", TEXT, cls_token_id=1, sep_token_id=2),
    "BertForSequenceClassification": classes("BertForSequenceClassification", "BertConfig"),
    "BartForConditionalGeneration": lambda: Case(
        t.BartForConditionalGeneration, t.BartConfig(**BART | dict(decoder_start_token_id=1)), answers),
    "MT5ForConditionalGeneration": lambda: Case(t.MT5ForConditionalGeneration, t.MT5Config(**T5), answers),
    "DeiTForImageClassification": image("DeiTForImageClassification", "DeiTConfig", **VIT),
    "BeitForImageClassification": image("BeitForImageClassification", "BeitConfig", **VIT),
    "Dinov2ForImageClassification": image("Dinov2ForImageClassification", "Dinov2Config", **VIT),
    "SwinForImageClassification": image("SwinForImageClassification", "SwinConfig", image_size=64, patch_size=4,
                                        embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "ResNetForImageClassification": image("ResNetForImageClassification", "ResNetConfig", embedding_size=16,
                                          hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic"),
    "ConvNextForImageClassification": image("ConvNextForImageClassification", "ConvNextConfig", num_stages=2,
                                            hidden_sizes=[16, 32], depths=[2, 2]),
    "ConvNextV2ForImageClassification": image("ConvNextV2ForImageClassification", "ConvNextV2Config", num_stages=2,
                                              hidden_sizes=[16, 32], depths=[2, 2]),
    "RwkvForCausalLM": lambda: Case(t.RwkvForCausalLM, t.RwkvConfig(
        hidden_size=64, num_hidden_layers=2, vocab_size=384, attention_hidden_size=64), tokens, (32, 16)),
    "Mamba2ForCausalLM": lambda: Case(t.Mamba2ForCausalLM, t.Mamba2Config(
        hidden_size=64, num_hidden_layers=2, vocab_size=384, state_size=16, num_heads=8, head_dim=16, n_groups=1,
        chunk_size=16, pad_token_id=0), tokens, (32, 16)),
    "DeepseekV3ForCausalLM": text("DeepseekV3ForCausalLM", "DeepseekV3Config", TEXT, **DEEPSEEK),
    "DeepseekV2ForCausalLM": text("DeepseekV2ForCausalLM", "DeepseekV2Config", TEXT, **DEEPSEEK),
    "Llama4ForCausalLM": text("Llama4ForCausalLM", "Llama4TextConfig", intermediate_size_mlp=128,
                              num_local_experts=4, num_experts_per_tok=1, attention_chunk_size=64),
    "Qwen3NextForCausalLM": text("Qwen3NextForCausalLM", "Qwen3NextConfig", linear_num_key_heads=2,
                                 linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
                                 shared_expert_intermediate_size=64, **EXPERTS),
    "GraniteMoeForCausalLM": text("GraniteMoeForCausalLM", "GraniteMoeConfig", **EXPERTS),
    "Olmo3ForCausalLM": text("Olmo3ForCausalLM", "Olmo3Config", sliding_window=64),
    "HeliumForCausalLM": text("HeliumForCausalLM", "HeliumConfig"),
    "NemotronForCausalLM": text("NemotronForCausalLM", "NemotronConfig"),
    "Cohere2ForCausalLM": text("Cohere2ForCausalLM", "Cohere2Config", sliding_window=64),
    "Exaone4ForCausalLM": text("Exaone4ForCausalLM", "Exaone4Config"),
    "Ernie4_5ForCausalLM": text("Ernie4_5ForCausalLM", "Ernie4_5Config"),
    "Dots1ForCausalLM": text("Dots1ForCausalLM", "Dots1Config", n_routed_experts=4, n_shared_experts=1,
                             moe_intermediate_size=64, num_experts_per_tok=2, n_group=1, topk_group=1),
    "GPTBigCodeForCausalLM": lambda: Case(t.GPTBigCodeForCausalLM, t.GPTBigCodeConfig(**GPT), tokens),
    "GPTJForCausalLM": lambda: Case(t.GPTJForCausalLM, t.GPTJConfig(**GPT | dict(rotary_dim=8)), tokens),
    "GPTNeoForCausalLM": lambda: Case(t.GPTNeoForCausalLM, t.GPTNeoConfig(
        hidden_size=64, num_layers=4, num_heads=4, attention_types=[[["global", "local"], 2]], vocab_size=384,
        max_position_embeddings=256, window_size=64), tokens),
    "BioGptForCausalLM": text("BioGptForCausalLM", "BioGptConfig", TEXT),
    "DebertaForMaskedLM": text("DebertaForMaskedLM", "DebertaConfig", TEXT, relative_attention=True,
                               pos_att_type=["c2p", "p2c"]),
    "MPNetForMaskedLM": text("MPNetForMaskedLM", "MPNetConfig", TEXT),
    "CamembertForMaskedLM": text("CamembertForMaskedLM", "CamembertConfig", TEXT),
    "SqueezeBertForMaskedLM": text("SqueezeBertForMaskedLM", "SqueezeBertConfig", TEXT, embedding_size=64),
    "MobileBertForMaskedLM": text("MobileBertForMaskedLM", "MobileBertConfig", TEXT, embedding_size=32,
                                  intra_bottleneck_size=32, true_hidden_size=32),
    "PegasusForConditionalGeneration": lambda: Case(
        t.PegasusForConditionalGeneration, t.PegasusConfig(**BART | dict(decoder_start_token_id=1)), answers),
    "MarianMTModel": lambda: Case(t.MarianMTModel, t.MarianConfig(**BART | dict(decoder_start_token_id=1)), answers),
    "M2M100ForConditionalGeneration": lambda: Case(
        t.M2M100ForConditionalGeneration, t.M2M100Config(**BART | dict(decoder_start_token_id=1)), answers),
    "Swinv2ForImageClassification": image("Swinv2ForImageClassification", "Swinv2Config", image_size=64, patch_size=4,
                                          embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "SegformerForImageClassification": image("SegformerForImageClassification", "SegformerConfig", depths=[1, 1, 1, 1],
                                             hidden_sizes=[16, 32, 40, 64]),
    "MobileNetV2ForImageClassification": image("MobileNetV2ForImageClassification", "MobileNetV2Config",
                                               depth_multiplier=0.5),
    "EfficientNetForImageClassification": image("EfficientNetForImageClassification", "EfficientNetConfig",
                                                width_coefficient=0.5, depth_coefficient=0.5, hidden_dim=640),
    "LlavaForConditionalGeneration": lambda: Case(t.LlavaForConditionalGeneration, t.LlavaConfig(
        text_config=t.LlamaConfig(**SHARED), vision_config=t.CLIPVisionConfig(**VIT), image_token_index=4,
        image_seq_length=64), seen, (128, 96)),
    "CLIPForImageClassification": lambda: Case(t.CLIPForImageClassification, t.CLIPConfig(
        vision_config=VIT, text_config=dict(TEXT)), pixels(), (1,)),
    "SiglipForImageClassification": lambda: Case(t.SiglipForImageClassification, t.SiglipConfig(
        vision_config=VIT, text_config=dict(TEXT)), pixels(), (1,)),
    "Wav2Vec2ForSequenceClassification": lambda: Case(t.Wav2Vec2ForSequenceClassification, t.Wav2Vec2Config(
        hidden_size=64, intermediate_size=176, num_hidden_layers=3, num_attention_heads=4, conv_dim=[32] * 7,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, mask_time_prob=0.0, layerdrop=0.0,
        classifier_proj_size=32), heard, (8000,)),
}


class Timm:
    """Of timm by name, for pictures of 64 x 64."""
    lengths = (1,)

    def __init__(self, name, side=64, **more):
        import timm  # late: all its networks at once
        self.side = side
        self.make_model = lambda: timm.create_model(name, num_classes=10, **more)

    def make_batch(self, size, length):
        return {"pixels": torch.zeros(size, 3, self.side, self.side), "labels": torch.zeros(size, dtype=torch.long)}

    def loss_of(self, model, batch):
        return torch.nn.functional.cross_entropy(model(batch["pixels"]), batch["labels"])


class Denoiser:
    """Of diffusers: the mean square of what the network says of a noisy picture."""
    lengths = (1,)

    def __init__(self, model, inputs, **config):
        self.inputs = inputs
        self.make_model = lambda: model(**config)

    def make_batch(self, size, length):
        return {key: make(size) for key, make in self.inputs.items()}

    def loss_of(self, model, batch):
        out = model(**batch, return_dict=False)[0]
        return out.float().pow(2).mean()


def zeros(*shape):
    return lambda size: torch.zeros(size, *shape)


def steps(size):
    return torch.full((size,), 7)


PICTURE = {"sample": zeros(4, 32, 32), "timestep": steps}
CONDITIONED = PICTURE | {"encoder_hidden_states": zeros(16, 32)}
FLUX = {"hidden_states": zeros(64, 16), "encoder_hidden_states": zeros(16, 32), "pooled_projections": zeros(32),
        "timestep": lambda size: torch.full((size,), 0.5), "img_ids": lambda size: torch.zeros(64, 3),
        "txt_ids": lambda size: torch.zeros(16, 3)}
JOINT = {"hidden_states": zeros(4, 16, 16), "encoder_hidden_states": zeros(16, 32), "pooled_projections": zeros(32),
         "timestep": steps}
UNET = dict(sample_size=32, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1,
            norm_num_groups=8)

DENOISERS = {
    "UNet2DConditionModel": lambda: Denoiser(
        d.UNet2DConditionModel, CONDITIONED, cross_attention_dim=32, attention_head_dim=8, **UNET,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")),
    "UNet2DModel": lambda: Denoiser(
        d.UNet2DModel, PICTURE, **UNET, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D")),
    "AutoencoderKL": lambda: Denoiser(
        d.AutoencoderKL, {"sample": zeros(3, 64, 64)}, block_out_channels=(32, 64), norm_num_groups=8,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2),
    "FluxTransformer2DModel": lambda: Denoiser(
        d.FluxTransformer2DModel, FLUX, in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=16,
        num_attention_heads=4, joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8)),
    "SD3Transformer2DModel": lambda: Denoiser(
        d.SD3Transformer2DModel, JOINT, sample_size=16, patch_size=2, in_channels=4, num_layers=3,
        attention_head_dim=16, num_attention_heads=4, joint_attention_dim=32, caption_projection_dim=64,
        pooled_projection_dim=32, out_channels=4),
    "DiTTransformer2DModel": lambda: Denoiser(
        d.DiTTransformer2DModel, {"hidden_states": zeros(4, 16, 16), "timestep": steps,
                                  "class_labels": lambda size: torch.zeros(size, dtype=torch.long)},
        num_attention_heads=4, attention_head_dim=16, in_channels=4, out_channels=8, num_layers=3, sample_size=16,
        norm_num_groups=8),
    "PixArtTransformer2DModel": lambda: Denoiser(
        d.PixArtTransformer2DModel, {"hidden_states": zeros(4, 16, 16), "timestep": steps,
                                     "encoder_hidden_states": zeros(16, 32)},
        num_attention_heads=4, attention_head_dim=16, in_channels=4, out_channels=8, num_layers=3, sample_size=16,
        cross_attention_dim=64, caption_channels=32, norm_num_groups=8, use_additional_conditions=False),
    "VQModel": lambda: Denoiser(
        d.VQModel, {"sample": zeros(3, 64, 64)}, block_out_channels=(32, 64), norm_num_groups=8, num_vq_embeddings=32,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2),
}
TIMM = {"timm " + name: (lambda name=name, more=more: Timm(name, **more)) for name, more in {
    "resnet18": {}, "resnet26d": {}, "resnetv2_50": {}, "regnetx_002": {}, "regnety_002": {}, "densenet121": {},
    "efficientnet_lite0": {}, "efficientnet_b0": {}, "tf_efficientnetv2_b0": {}, "mobilenetv2_050": {},
    "mobilenetv3_small_050": {}, "mnasnet_small": {}, "ghostnet_050": {}, "repvgg_a0": {}, "convnext_atto": {},
    "convnextv2_atto": {}, "inception_next_atto": {}, "edgenext_xx_small": {}, "mobilevit_xxs": {},
    "vit_tiny_patch16_224": dict(img_size=64), "deit_tiny_patch16_224": dict(img_size=64),
    "deit3_small_patch16_224": dict(img_size=64, depth=3), "cait_xxs24_224": dict(img_size=64),
    "swin_tiny_patch4_window7_224": dict(img_size=64, window_size=4, embed_dim=32, num_heads=(2, 4, 8, 16)),
    "xcit_nano_12_p16_224": dict(img_size=64), "mixer_s32_224": dict(img_size=64), "pvt_v2_b0": {},
    "poolformerv2_s12": {}, "eva02_tiny_patch14_224": dict(img_size=56, side=56), "resmlp_12_224": dict(img_size=64),
}.items()}
CLASSES = TRANSFORMERS | DENOISERS | TIMM
