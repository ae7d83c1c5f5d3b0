

# ---- yours: a network of diffusers that learns to take noise away. Only its configuration is read ----

import diffusers  # noqa: E402

with open(sys.argv[1] if len(sys.argv) > 1 else "config.json", encoding="utf-8") as file:
    said = json.load(file)
Network = getattr(diffusers, said["_class_name"])
WORDS, TIME = 77, "timestep"  # tokens of the text that is shown; how forward calls the step of the noise


def make_model():
    model = Network.from_config(said)
    # model.enable_gradient_checkpointing()
    return model


def make_batch(size, length):  # length: the side of a picture's latents, 64 of 512 pixels and 128 of 1024
    if Network.__name__ == "FluxTransformer2DModel":  # a token is a square of 2 x 2 latents
        tokens, words = (length // 2) ** 2, 512
        return {"hidden_states": torch.zeros(size, tokens, said["in_channels"]), TIME: torch.zeros(size),
                "encoder_hidden_states": torch.zeros(size, words, said["joint_attention_dim"]),
                "pooled_projections": torch.zeros(size, said["pooled_projection_dim"]),
                "img_ids": torch.zeros(tokens, 3), "txt_ids": torch.zeros(words, 3),
                **({"guidance": torch.zeros(size)} if said.get("guidance_embeds") else {})}
    batch = {"sample": torch.zeros(size, said["in_channels"], length, length),
             TIME: torch.zeros(size, dtype=torch.long)}
    if said.get("cross_attention_dim"):
        batch["encoder_hidden_states"] = torch.zeros(size, WORDS, said["cross_attention_dim"])
    if said.get("addition_embed_type") == "text_time":  # SDXL's: the pooled text and six sizes
        pooled = said["projection_class_embeddings_input_dim"] - 6 * said["addition_time_embed_dim"]
        batch["added_cond_kwargs"] = {"text_embeds": torch.zeros(size, pooled), "time_ids": torch.zeros(size, 6)}
    return batch


def loss_of(model, batch):
    out = model(**batch, return_dict=False)[0]
    return torch.nn.functional.mse_loss(out.float(), torch.zeros_like(out, dtype=torch.float32))


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), foreach=True)


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(64, 32), autocast=torch.bfloat16)
