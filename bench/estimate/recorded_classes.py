"""Small models of transformers, with random weights: what recorded.py compares."""

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


def text(model, config, base=SHARED, **more):
    return lambda: Case(model, config(**(base | more)), tokens)


def image(model, config, side=64, **more):
    return lambda: Case(model, config(**more), pixels(side), (1,))


def classes(model, config, base=TEXT, **more):
    return lambda: Case(model, config(**(base | more | dict(num_labels=3))), labelled)


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

CLASSES = {
    "GPT2LMHeadModel": lambda: Case(t.GPT2LMHeadModel, t.GPT2Config(**GPT), tokens),
    "LlamaForCausalLM": text(t.LlamaForCausalLM, t.LlamaConfig),
    "BertForMaskedLM": text(t.BertForMaskedLM, t.BertConfig, TEXT),
    "T5ForConditionalGeneration": lambda: Case(t.T5ForConditionalGeneration, t.T5Config(**T5), answers),
    "ViTForImageClassification": image(t.ViTForImageClassification, t.ViTConfig, **VIT),
    "MixtralForCausalLM": text(t.MixtralForCausalLM, t.MixtralConfig, **EXPERTS),
    "WhisperForConditionalGeneration": lambda: Case(
        t.WhisperForConditionalGeneration,
        t.WhisperConfig(**BART | dict(max_source_positions=128, max_target_positions=64, num_mel_bins=80,
                                      decoder_start_token_id=1)), sound, (128,)),
    "MambaForCausalLM": lambda: Case(t.MambaForCausalLM, t.MambaConfig(
        hidden_size=64, num_hidden_layers=2, vocab_size=384, state_size=16, pad_token_id=0), tokens, (32, 16)),
    "Gemma3ForCausalLM": text(t.Gemma3ForCausalLM, t.Gemma3TextConfig, sliding_window=64),
    "Qwen3ForCausalLM": text(t.Qwen3ForCausalLM, t.Qwen3Config),
    "Qwen2ForCausalLM": text(t.Qwen2ForCausalLM, t.Qwen2Config),
    "MistralForCausalLM": text(t.MistralForCausalLM, t.MistralConfig),
    "PhiForCausalLM": text(t.PhiForCausalLM, t.PhiConfig),
    "Phi3ForCausalLM": text(t.Phi3ForCausalLM, t.Phi3Config),
    "GemmaForCausalLM": text(t.GemmaForCausalLM, t.GemmaConfig),
    "Gemma2ForCausalLM": text(t.Gemma2ForCausalLM, t.Gemma2Config),
    "OlmoForCausalLM": text(t.OlmoForCausalLM, t.OlmoConfig),
    "Olmo2ForCausalLM": text(t.Olmo2ForCausalLM, t.Olmo2Config),
    "StableLmForCausalLM": text(t.StableLmForCausalLM, t.StableLmConfig),
    "Starcoder2ForCausalLM": text(t.Starcoder2ForCausalLM, t.Starcoder2Config),
    "GraniteForCausalLM": text(t.GraniteForCausalLM, t.GraniteConfig),
    "Glm4ForCausalLM": text(t.Glm4ForCausalLM, t.Glm4Config),
    "SmolLM3ForCausalLM": text(t.SmolLM3ForCausalLM, t.SmolLM3Config),
    "CohereForCausalLM": text(t.CohereForCausalLM, t.CohereConfig),
    "GPTNeoXForCausalLM": text(t.GPTNeoXForCausalLM, t.GPTNeoXConfig, TEXT),
    "FalconForCausalLM": text(t.FalconForCausalLM, t.FalconConfig, TEXT),
    "BloomForCausalLM": lambda: Case(t.BloomForCausalLM, t.BloomConfig(
        hidden_size=64, n_layer=4, n_head=4, vocab_size=384, bos_token_id=1, eos_token_id=2), tokens),
    "OPTForCausalLM": lambda: Case(t.OPTForCausalLM, t.OPTConfig(
        hidden_size=64, ffn_dim=176, num_hidden_layers=4, num_attention_heads=4, vocab_size=384,
        max_position_embeddings=256, word_embed_proj_dim=64), tokens),
    "Qwen3MoeForCausalLM": text(t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig, **EXPERTS),
    "OlmoeForCausalLM": text(t.OlmoeForCausalLM, t.OlmoeConfig, **EXPERTS),
    "GptOssForCausalLM": text(t.GptOssForCausalLM, t.GptOssConfig, **EXPERTS),
    "RobertaForMaskedLM": text(t.RobertaForMaskedLM, t.RobertaConfig, TEXT),
    "XLMRobertaForMaskedLM": text(t.XLMRobertaForMaskedLM, t.XLMRobertaConfig, TEXT),
    "DistilBertForMaskedLM": lambda: Case(t.DistilBertForMaskedLM, t.DistilBertConfig(
        dim=64, hidden_dim=176, n_layers=4, n_heads=4, vocab_size=384, max_position_embeddings=256), tokens),
    "ElectraForMaskedLM": text(t.ElectraForMaskedLM, t.ElectraConfig, TEXT, embedding_size=64),
    "AlbertForMaskedLM": text(t.AlbertForMaskedLM, t.AlbertConfig, TEXT, embedding_size=32),
    "DebertaV2ForMaskedLM": text(t.DebertaV2ForMaskedLM, t.DebertaV2Config, TEXT),
    "ModernBertForMaskedLM": text(t.ModernBertForMaskedLM, t.ModernBertConfig, TEXT, cls_token_id=1, sep_token_id=2),
    "BertForSequenceClassification": classes(t.BertForSequenceClassification, t.BertConfig),
    "BartForConditionalGeneration": lambda: Case(
        t.BartForConditionalGeneration, t.BartConfig(**BART | dict(decoder_start_token_id=1)), answers),
    "MT5ForConditionalGeneration": lambda: Case(t.MT5ForConditionalGeneration, t.MT5Config(**T5), answers),
    "DeiTForImageClassification": image(t.DeiTForImageClassification, t.DeiTConfig, **VIT),
    "BeitForImageClassification": image(t.BeitForImageClassification, t.BeitConfig, **VIT),
    "Dinov2ForImageClassification": image(t.Dinov2ForImageClassification, t.Dinov2Config, **VIT),
    "SwinForImageClassification": image(t.SwinForImageClassification, t.SwinConfig, image_size=64, patch_size=4,
                                        embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "ResNetForImageClassification": image(t.ResNetForImageClassification, t.ResNetConfig, embedding_size=16,
                                          hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic"),
    "ConvNextForImageClassification": image(t.ConvNextForImageClassification, t.ConvNextConfig, num_stages=2,
                                            hidden_sizes=[16, 32], depths=[2, 2]),
    "RwkvForCausalLM": lambda: Case(t.RwkvForCausalLM, t.RwkvConfig(
        hidden_size=64, num_hidden_layers=2, vocab_size=384, attention_hidden_size=64), tokens, (32, 16)),
}
