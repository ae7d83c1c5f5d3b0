#!/bin/bash
# Does everything that computes on a GPU do so with the CPU's bits, in the memory that was planned? One command
# that needs no network.
#
#   bench/gpu/verify.sh                     builds for this machine's GPU, checks, and writes
#                                           bench/results/gpu_verify-NAME.md
#   bench/gpu/verify.sh --build FOLDER      with a build that was carried here (configured with -DSNUG_CUDA=ON)
#   bench/gpu/verify.sh --device emulated   the same script on the emulated device: for those who change it
#   bench/gpu/verify.sh --out FILE          where the result goes
#
# 1. Every kernel on the cases of the op harness, beside the CPU's kernel: the same bits, or how near.
# 2. Runs of 20 steps of several models and techniques on the CPU and on the device: losses and weights, byte for
#    byte.
# 3. Tensor cores: each instruction, every tile, their time; runs in mixed bf16 and in floats of 8 bits whose losses
#    are near the CPU's. On capability 9.0 the same by groups of warps, where cuBLASLt is installed of its products.
# 4. A run that begins on the CPU and goes on on the device; the loss of a model that is only evaluated; texts that
#    a model adds, in f32, in bf16 and from codes of 8 bits: the same.
# 5. What was planned of each pool and what was measured; on a GPU that is otherwise idle, also the driver's count
#    of the whole device at its highest beside the plan's peak.
# 6. On a GPU, where NCCL is installed: one rank of it, moving on a stream of its own between events.
# Exit 0: everything held. 1: something did not, the result says what. 2: it could not start.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build='' device=cuda out=''
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2 && shift 2 ;;
    --device) device=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    *)
        sed -n '2,22s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        case $1 in -h | --help) exit 0 ;; *) exit 2 ;; esac
        ;;
    esac
done

name=$device
if [ "$device" = cuda ]; then
    name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 | tr -cs 'A-Za-z0-9\n' -)
    [ -n "$name" ] || { echo "nvidia-smi finds no GPU" >&2; exit 2; }
fi
out=${out:-bench/results/gpu_verify-$name.md}
if [ -z "$build" ]; then
    build=build-gpu
    cmake -S . -B $build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSNUG_TESTS=OFF -DSNUG_CUDA=ON \
        -DSNUG_CUDA_ARCHITECTURES=native >$build.log 2>&1 &&
        cmake --build $build -j "$(nproc)" --target snug-cli bench-gpu-kernels bench-gpu-tensor \
        bench-gpu-attention bench-gpu-ranks >>$build.log 2>&1 ||
        { tail -20 $build.log; echo "the build failed: $build.log" >&2; exit 2; }
fi
build=$(cd "$build" && pwd) || exit 2
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
failed=0 result=$folder/result.md

say() { echo "$@" | tee -a "$result"; }

# ---- what runs are made of ----

cat README.md docs/*.md | head -c 60000 >"$folder/text"
model() { printf '%s\n' "$2" >"$folder/$1.json"; }
model gpt2 '{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 128, "vocab_size": 256}'
model llama '{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "hidden_size": 64, "intermediate_size": 160, "vocab_size": 256, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
 "hidden_act": "silu", "tie_word_embeddings": false}'
model bert '{"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 64,
 "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 128, "type_vocab_size": 2,
 "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-12,
 "pad_token_id": 0, "mask_token_id": 3, "architectures": ["BertForMaskedLM"]}'
model mixtral '{"model_type": "mixtral", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "hidden_size": 64, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
 "hidden_act": "silu", "num_local_experts": 4, "num_experts_per_tok": 2, "tie_word_embeddings": false}'
# Each has one plan on both: what a planner would choose for the one and not for the other is pinned, or exact.
runs=(
    "gpt2|$folder/gpt2.json|--exact"
    "gpt2, blocks computed again, micro-batches|$folder/gpt2.json|--recompute block --micro-batch 2 --attention plain"
    "gpt2, flash attention, loss in chunks|$folder/gpt2.json|--attention flash --chunk-loss 2 --micro-batch 4"
    "gpt2, state of 8 bits|$folder/gpt2.json|--optimizer-state 8bit --attention plain --micro-batch 4"
    "gpt2, mixed bf16|$folder/gpt2.json|--precision mixed-bf16 --attention plain --micro-batch 4"
    "llama|$folder/llama.json|--exact"
    "llama, flash attention, adapters|$folder/base|--attention flash --lora rank=4 --micro-batch 4"
    "bert, dropout|$folder/bert.json|--exact"
    "a mixture of experts|$folder/mixtral.json|--exact"
    "gpt2, state and activations away|$folder/gpt2.json|--exact --offload optimizer,activations --offload-to $folder"
)
"$build/snug" train "$folder/llama.json" --data "$folder/text" --out "$folder/base" --device cpu --steps 1 --batch 4 \
    --context 64 --eval-samples 1 --rates built-in --quiet 2>"$folder/base.log" || { cat "$folder/base.log"; exit 2; }
steps=20 && [ "$device" = emulated ] && steps=2

train() { # DEVICE OUT MODEL OPTIONS...; products of 16 bits as every processor makes them, or as $products says
    local on=$1 to=$2 network=$3
    shift 3
    "$build/snug" train "$network" --data "$folder/text" --out "$folder/$to" --device "$on" --steps $steps \
        --batch 4 --context 64 --eval-samples 4 --instructions "${products:-widened}" --rates built-in --quiet --json \
        "$@" >"$folder/$to.json" 2>"$folder/$to.log"
}

losses() { grep -A1 '"losses"' "$1" | head -2; }
losses_apart() { # FILE FILE: the largest difference, of one of them
    python3 - "$1" "$2" <<'PY'
import json, sys
a, b = (json.load(open(f))["losses"] for f in sys.argv[1:])
most = max(abs(x - y) / abs(x) for x, y in zip(a, b)) if len(a) == len(b) and a else float("inf")
print(f"{most:.1e}" + (" **above 1e-3**" if not most <= 1e-3 else ""))
PY
}
pool_line() { # FILE: pools whose measured bytes are not the planned ones
    python3 - "$1" <<'PY' 2>/dev/null || echo "?"
import json, sys
pools = json.load(open(sys.argv[1])).get("pools", [])
print("; ".join(f"{p['name']}: {p['predicted_bytes']} planned, {p['measured_bytes']} measured"
                + (" **above**" if p["measured_bytes"] > (p["predicted_bytes"] + 4095) // 4096 * 4096 else "")
                for p in pools))
PY
}

used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -1; }
within_driver() { # MODEL OPTIONS...: a row of the plan's peak beside what the driver counts of the whole device
    local network=$1 before most planned
    shift
    before=$(used)
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 50 >"$folder/counts" 2>/dev/null &
    local watcher=$!
    "$build/snug" train "$network" --data "$folder/text" --out "$folder/driver" --overwrite --device cuda \
        --eval-samples 1 --rates built-in --quiet --json "$@" >"$folder/driver.json" 2>"$folder/driver.log" ||
        { say "| $network $* | the run failed: $(tail -1 "$folder/driver.log") | | |"; failed=1; }
    kill $watcher
    most=$(sort -n "$folder/counts" | tail -1)
    planned=$(grep -m1 '"peak_bytes"' "$folder/driver.json" | tr -dc 0-9)
    [ $(((${most:-0} - before) << 20)) -le "${planned:-0}" ] || failed=1
    say "| $network $* | $((planned >> 20)) | $((${most:-0} - before)) | $(pool_line "$folder/driver.json") |"
}

# ---- the checks ----

say "# snug on ${name}"
say
say "\`bench/gpu/verify.sh\`, $(git rev-parse --short HEAD 2>/dev/null || echo 'no commit'), $(date -u +%F)."
[ "$device" = cuda ] && say && say "$(nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap \
    --format=csv,noheader | head -1); $("$build/snug" devices 2>/dev/null | head -1)"
say
say '## Kernels, on the cases of the op harness'
say
say '```'
"$build/bench-gpu-kernels" "$device" 2>"$folder/wrong" | tee "$folder/kernels" | grep -v ' 0 near,    0 wrong' |
    tee -a "$result"
[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
head -40 "$folder/wrong" | tee -a "$result"
say '```'
say
say "$(grep -c ' 0 near,    0 wrong' "$folder/kernels") ops have the CPU's bits in all cases; the others stand above."
say
say "## Runs of $steps steps, on the CPU and on the device"
say
say '| run | losses | weights | pools | seconds |'
say '|---|---|---|---|---|'
for run in "${runs[@]}"; do
    IFS='|' read -r title network options <<<"$run"
    rm -rf "$folder/here" "$folder/there"
    # shellcheck disable=SC2086
    if ! train cpu here "$network" $options; then
        say "| $title | the CPU's run failed: $(tail -1 "$folder/here.log") | | | |"
        failed=1
        continue
    fi
    began=$(date +%s.%N)
    # shellcheck disable=SC2086
    if ! train "$device" there "$network" $options; then
        say "| $title | failed: $(tail -1 "$folder/there.log") | | | |"
        failed=1
        continue
    fi
    took=$(echo "$(date +%s.%N) - $began" | bc 2>/dev/null | cut -c1-5)
    same_losses=differ same_weights=differ
    [ "$(losses "$folder/here.json")" = "$(losses "$folder/there.json")" ] && same_losses=same
    weights=model.safetensors
    [ -e "$folder/here/adapter_model.safetensors" ] && weights=adapter_model.safetensors
    cmp -s "$folder/here/$weights" "$folder/there/$weights" && same_weights=same
    [ $same_losses$same_weights = samesame ] || failed=1
    pools=$(pool_line "$folder/there.json")
    case $pools in *above*) failed=1 ;; esac
    say "| $title | $same_losses | $same_weights | $pools | $took |"
done

say
say '## Tensor cores'
say
say 'Nothing takes them unasked (`--instructions tensor-cores`). Each instruction, and tiles on small products:'
say
say '```'
"$build/bench-gpu-tensor" "$device" $([ "$device" = cuda ] && echo seconds) | tee -a "$result"
tensor=${PIPESTATUS[0]} # 2: this GPU has none
say
"$build/bench-gpu-attention" "$device" $([ "$device" = cuda ] && echo seconds) | tee -a "$result"
heads=${PIPESTATUS[0]}
say '```'
case $heads in 0 | 2) ;; *) failed=1 ;; esac
case $tensor in 0 | 2) ;; *) failed=1 ;; esac
near() { # TITLE OPTIONS...: of the device, as $products and $more say; the CPU has OPTIONS alone
    local title=$1 apart='' pools
    shift
    rm -rf "$folder/here" "$folder/there"
    # shellcheck disable=SC2086
    products=widened train cpu here "$folder/gpt2.json" "$@" &&
        train "$device" there "$folder/gpt2.json" "$@" ${more:-} &&
        apart=$(losses_apart "$folder/here.json" "$folder/there.json") ||
        { say "a run failed: $(tail -1 "$folder/here.log" "$folder/there.log")"; failed=1; }
    pools=$(pool_line "$folder/there.json")
    say
    say "gpt2, $title: the losses of $steps steps are apart from the CPU's by ${apart:-?} of their size at most. $pools"
    case "${apart:-?} $pools" in *above* | *'?'*) failed=1 ;; esac
}
if [ "$tensor" -eq 0 ]; then
    for attention in plain flash; do
        products=tensor-cores near "mixed bf16, $attention attention" --precision mixed-bf16 --attention $attention \
            --micro-batch 4
    done
    products=tensor-cores near 'floats of 8 bits' --precision fp8-mixed --attention plain --micro-batch 4
fi
if [ "$tensor" -eq 0 ] && grep -q '^groups of warps' "$result"; then # as bench-gpu-tensor found
    products=tensor-groups near 'mixed bf16, by groups of warps' --precision mixed-bf16 --attention plain \
        --micro-batch 4
    products=tensor-groups near 'floats of 8 bits, by groups of warps' --precision fp8-mixed --attention plain \
        --micro-batch 4
fi

say
say "## Products by NVIDIA's library"
say
[ "$device" = emulated ] && export LD_LIBRARY_PATH=$build/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if "$build/snug" plan "$folder/gpt2.json" --device "$device" --batch 4 --context 64 --library-products on \
    --rates built-in --quiet >"$folder/library.log" 2>&1; then
    say 'Nothing takes them unasked (`--library-products on`).'
    for precision in off mixed-bf16; do
        more='--library-products on' near "products of cuBLASLt, --precision $precision" --precision $precision \
            --attention plain --micro-batch 4
    done
else
    say "Left out: $(tail -1 "$folder/library.log")"
fi

say
say "## Attention by NVIDIA's library"
say
if "$build/snug" plan "$folder/gpt2.json" --device "$device" --batch 4 --context 64 --library-attention on \
    --dropout 0 --precision mixed-bf16 --attention flash --rates built-in --quiet >"$folder/library.log" 2>&1; then
    say 'Nothing takes it unasked (`--library-attention on`).'
    for direction in forward on; do
        more="--library-attention $direction" near "attention of cuDNN, $direction" --dropout 0 --precision mixed-bf16 \
            --attention flash --micro-batch 4
    done
else
    say "Left out: $(tail -1 "$folder/library.log")"
fi

say
say '## What goes on, is evaluated, and is generated'
say
say '| what | the same |'
say '|---|---|'
row() { # WHAT CODE
    [ "$2" -eq 0 ] && say "| $1 | yes |" && return
    say "| $1 | **no** |"
    failed=1
}
rm -rf "$folder/here" "$folder/there"
train cpu here "$folder/gpt2.json" --exact --save-every $((steps / 2))
train "$device" there "$folder/gpt2.json" --exact --resume "$folder/here/checkpoint-$((steps / 2))"
cmp -s "$folder/here/model.safetensors" "$folder/there/model.safetensors"
row 'weights of a run that goes on on the device, and of one on the CPU alone' $?
evaluated() { # DEVICE
    "$build/snug" train "$folder/base" --data "$folder/text" --eval-only --batch 4 --context 64 --device "$1" \
        --rates built-in --quiet --json 2>>"$folder/base.log" | grep '"loss"'
}
on_cpu=$(evaluated cpu) on_device=$(evaluated "$device")
[ -n "$on_cpu" ] && [ "$on_cpu" = "$on_device" ]
row 'the loss of a Llama that is evaluated' $?
"$build/snug" quantize "$folder/base" --out "$folder/codes" --rates built-in --quiet 2>>"$folder/base.log"
texts() { # DEVICE DIR OPTIONS...
    local on=$1 from=$2
    shift 2
    set -- --instructions widened "$@"
    "$build/snug" generate "$from" --prompt 'A model' --prompt 'of memory' --tokens 40 --seed 7 --device "$on" \
        --quiet "$@" 2>>"$folder/base.log"
}
for options in "$folder/base" "$folder/base --dtype bf16" "$folder/codes"; do
    # shellcheck disable=SC2086
    on_cpu=$(texts cpu $options | od -c) on_device=$(texts "$device" $options | od -c)
    [ -n "$on_cpu" ] && [ "$on_cpu" = "$on_device" ]
    row "texts of two prompts: \`${options#"$folder/"}\`" $?
done

if [ "$device" = cuda ]; then
    say
    say '## NCCL, one rank'
    say
    moved=$("$build/bench-gpu-ranks" "$device" 2>&1)
    case $? in
    0) say "$moved" ;;
    2) say "Left out: $moved" ;;
    *) say "**Wrong**: $moved" && failed=1 ;;
    esac
    say
    say '## The whole device, by the driver'
    say
    say '| run | planned peak, MiB | by the driver at most, MiB more than before | pools, bytes |'
    say '|---|---|---|---|'
    within_driver char-gpt --steps 20 --batch 32 --context 256
    within_driver gpt2 --steps 3 --batch 4 --context 1024
    within_driver gpt2 --steps 3 --batch 4 --context 1024 --memory 3GiB
    within_driver gpt2 --steps 3 --batch 4 --context 1024 --memory 1800MiB
fi
say
[ $failed -eq 0 ] && say 'Everything held.' || say 'Something did not hold.'
mkdir -p "$(dirname "$out")" && cp "$result" "$out" && echo "written: $out"
exit $failed
