/* Why memory ran out: where it failed, then the numbers; what is not shown is not claimed, and is asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/oom/oom.h"

/* Numbers that say nothing by themselves: tensors fill most of the device. */
#define FULL                                                                                                 \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of " \
    "23.64 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 22.60 GiB memory "  \
    "in use. Of the allocated memory 21.50 GiB is allocated by PyTorch, and 300.00 MiB is reserved by "      \
    "PyTorch but unallocated.\n"
#define FRAME(line) "Traceback (most recent call last):\n  File \"x.py\", line 7, in f\n    " line "\n"

typedef struct {
    oom_cause cause;
    bool sure;
    oom_place place;
    const char *text;
} example;

static void check(const example *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        oom m;
        const example *c = &cases[i];
        if (!oom_read(c->text, strlen(c->text), &m)) fail_msg("'%s' was not read", c->text);
        oom_verdict why = oom_why(&m);
        if (why.cause != c->cause || why.sure != c->sure || m.place != c->place)
            fail_msg("%s: cause %d, sure %d, place %d", c->text, (int)why.cause, why.sure, (int)m.place);
    }
}

static void the_place_decides(void **state) {
    (void)state;
    static const example cases[] = {
        { OOM_FULL, true, OOM_NOWHERE, FULL },
        { OOM_FULL, true, OOM_BACKWARD, FRAME("loss.backward()") FULL },
        { OOM_BY_OPTIMIZER, true, OOM_OPTIMIZER, FRAME("state['exp_avg_sq'] = torch.zeros_like(p)") FULL },
        { OOM_BY_OPTIMIZER, true, OOM_OPTIMIZER, FULL FRAME("self.optim.step()") }, /* it may come first */
        { OOM_BY_ATTENTION, true, OOM_ATTENTION, FRAME("attn_weights = softmax(attn_weights, dim=-1)") FULL },
        { OOM_BY_ATTENTION, false, OOM_ATTENTION, FRAME("F.scaled_dot_product_attention(q, k, v)") FULL },
        { OOM_BY_LOSS, true, OOM_LOSS, FRAME("loss = F.cross_entropy(logits, labels)") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("output = self.evaluation_loop(") FULL },
        { OOM_BY_SAVING, true, OOM_SAVING, FRAME("ema_state_dict = ema_model.state_dict()") FULL },
        { OOM_BY_LOADING, true, OOM_LOADING, FRAME("model = model.to(device)") FULL },
        { OOM_BY_LOADING, true, OOM_LOADING,
          FRAME("return t.to(device, dtype if t.is_floating_point() or t.is_complex() else None)") FULL },
        { OOM_BY_LOADING, true, OOM_LOADING, FRAME("return self._apply(lambda t: t.cuda(device))") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("x, in torch_pad_and_concatenate") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("File \"m.py\", line 7, in run_val") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("m.py:280 in _do_eval_now") FULL },
        { OOM_BY_SAVING, true, OOM_SAVING, FRAME("File \"m.py\", line 7, in _save_best") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("File \"m.py\", line 7, in interval_of_values") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("for x in val, y") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("val_loss = self.val_one_epoch(val_loader)") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("t.train(train_loader=a, val_loader=val_loader)") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, "0/10 * Epoch (valid):   3% 1/32\n" FRAME("x") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, "# Out of memory at validation time\n" FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, "EPOCH 1 COMPLETE. EVALUATING...\n" FRAME("main()") FULL },
        { OOM_BY_SAVING, true, OOM_SAVING,
          "This may mean invalid memory regions after returning from state_dict() call. Error: " FULL },
        { OOM_BY_SAVING, true, OOM_SAVING, "It fails when saving checkpoint 500\n" FULL },
        /* frames within each other: what an optimizer calls back is no update, scores in validation are its
         */
        { OOM_FULL, true, OOM_FORWARD, FRAME("optimizer.step(closure)\n    training_step(batch)") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION,
          FRAME("metrics = trainer.evaluate()\n    attn_weights = q") FULL },
        { OOM_FULL, true, OOM_BACKWARD, FRAME("_save_checkpoint_not\n    loss.backward()") FULL },
        { OOM_BY_SAVING, true, OOM_SAVING, FRAME("self.save_model(dir)\n    x = module.to(device)") FULL },
        { OOM_BY_LOADING, true, OOM_LOADING, "Loading checkpoint shards:  57%| 4/7\n" FULL },
        { OOM_FULL, true, OOM_NOWHERE, "Loading checkpoint shards: 100%| 7/7\n" FULL },
        /* an older traceback does not count */
        { OOM_FULL, true, OOM_BACKWARD, FRAME("torch.save(x)") FRAME("loss.backward()") FULL },
    };
    check(cases, sizeof cases / sizeof *cases);
}

/* A request that is small beside the device did not fail for being scores. */
static void small_requests_are_nobodys(void **state) {
    (void)state;
    static const example cases[] = {
        { OOM_FULL, true, OOM_ATTENTION,
          FRAME("attn_weights = x") "Tried to allocate 20.00 MiB (GPU 0; 23.70 GiB total capacity; 22.00 GiB "
                                    "already allocated; 2.56 MiB free; 22.29 GiB reserved in total by "
                                    "PyTorch)" },
        { OOM_BY_OPTIMIZER, true, OOM_OPTIMIZER,
          FRAME("optimizer.step()") "Tried to allocate 20.00 MiB (GPU 0; 23.70 GiB total capacity; 22.00 GiB "
                                    "already allocated; 2.56 MiB free; 22.29 GiB reserved in total by "
                                    "PyTorch)" },
    };
    check(cases, sizeof cases / sizeof *cases);
}

#define OLD(tried, total, allocated, free, reserved)                                                         \
    "RuntimeError: CUDA out of memory. Tried to allocate " tried " (GPU 0; " total                           \
    " total capacity; " allocated " already allocated; " free " free; " reserved " reserved in total by "    \
    "PyTorch)\n"

static void numbers_are_told_apart(void **state) {
    (void)state;
    static const example cases[] = {
        /* pieces that would serve, that would not, and that every run has */
        { OOM_FRAGMENTED, true, OOM_NOWHERE,
          OLD("10.84 GiB", "23.65 GiB", "1.06 GiB", "10.26 GiB", "12.53 GiB") },
        { OOM_FULL, true, OOM_NOWHERE, OLD("7.74 GiB", "23.69 GiB", "18.60 GiB", "2.78 GiB", "20.05 GiB") },
        { OOM_FULL, true, OOM_NOWHERE, OLD("20.00 MiB", "23.69 GiB", "22.30 GiB", "2.00 MiB", "22.50 GiB") },
        /* less than a tenth of the device, and a tenth; sizes are rounded */
        { OOM_FULL, true, OOM_NOWHERE, OLD("34.00 MiB", "10.91 GiB", "9.52 GiB", "17.56 MiB", "10.28 GiB") },
        { OOM_FRAGMENTED, true, OOM_NOWHERE,
          OLD("34.00 MiB", "10.91 GiB", "9.12 GiB", "17.56 MiB", "10.28 GiB") },
        { OOM_FRAGMENTED, true, OOM_NOWHERE,
          OLD("1.67 GiB", "3.95 GiB", "246.26 MiB", "770.62 MiB", "1.90 GiB") },
        { OOM_FULL, true, OOM_NOWHERE, OLD("1.67 GiB", "3.95 GiB", "1.00 GiB", "770.62 MiB", "2.60 GiB") },
        { OOM_FRAGMENTED, true, OOM_NOWHERE,
          OLD("20.00 MiB", "60.00 GiB", "56.00 GiB", "2.00 MiB", "58.30 GiB") },
        /* pieces that alone would serve decide even in the optimizer */
        { OOM_FRAGMENTED, true, OOM_OPTIMIZER,
          FRAME("optimizer.step()") OLD("1.00 GiB", "23.69 GiB", "12.30 GiB", "200.00 MiB", "22.50 GiB") },
        /* tensors alone are more than the device */
        { OOM_FULL, true, OOM_NOWHERE, OLD("1.78 GiB", "4.00 GiB", "7.42 GiB", "0 bytes", "9.23 GiB") },
        { OOM_TOO_LARGE, true, OOM_NOWHERE,
          OLD("25.49 GiB", "23.70 GiB", "57.77 MiB", "22.24 GiB", "84.00 MiB") },
        { OOM_BY_ATTENTION, true, OOM_ATTENTION,
          FRAME("energy = torch.bmm(proj_query, k)")
              OLD("268.21 GiB", "10.92 GiB", "1.80 GiB", "8.52 GiB", "1.85 GiB") },
        /* what nobody accounts for, beyond what a context takes */
        { OOM_OTHERS, true, OOM_NOWHERE, OLD("1.69 GiB", "14.56 GiB", "649.97 MiB", "1.31 GiB", "1.01 GiB") },
        /* what a small device's desktop takes */
        { OOM_FULL, true, OOM_NOWHERE, OLD("20.00 MiB", "3.00 GiB", "2.10 GiB", "14.36 MiB", "2.10 GiB") },
        /* a large request and hardly more free: it needs one piece */
        { OOM_FULL, true, OOM_NOWHERE, OLD("8.13 GiB", "10.76 GiB", "643.57 MiB", "8.20 GiB", "676.00 MiB") },
        /* less than the process's own tensors may be a desktop's or a library's */
        { OOM_OTHERS, false, OOM_NOWHERE,
          OLD("844.00 MiB", "14.76 GiB", "9.70 GiB", "500.00 MiB", "10.15 GiB") },
        { OOM_FULL, true, OOM_NOWHERE, OLD("32.00 MiB", "7.79 GiB", "6.64 GiB", "21.00 MiB", "6.79 GiB") },
        { OOM_LIMIT, false, OOM_NOWHERE, OLD("12.50 MiB", "10.92 GiB", "8.57 MiB", "9.28 GiB", "14.00 MiB") },
        { OOM_LIMIT, true, OOM_NOWHERE,
          "HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of which "
          "244.65 "
          "GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch, and "
          "57.99 MiB "
          "is reserved by PyTorch but unallocated." },
        { OOM_OTHERS, true, OOM_NOWHERE,
          "MPS backend out of memory (MPS allocated: 1.45 GB, other allocations: 7.42 GB, max allowed: 9.07 "
          "GB). Tried "
          "to allocate 563.62 MB on private pool." },
        { OOM_FULL, true, OOM_NOWHERE,
          "MPS backend out of memory (MPS allocated: 18.02 GB, other allocations: 107.10 MB, max allowed: "
          "18.13 GB). "
          "Tried to allocate 4.50 MB on private pool." },
        { OOM_TOO_LARGE, true, OOM_NOWHERE,
          "MPS backend out of memory (MPS allocated: 1.00 GB, other allocations: 0 bytes, max allowed: 9.07 "
          "GB). Tried "
          "to allocate 12.00 GB on private pool." },
    };
    check(cases, sizeof cases / sizeof *cases);
}

static void doubtful_numbers_prove_nothing(void **state) {
    (void)state;
    static const example cases[] = {
        /* of the smallest requests, pieces of others' segments serve none */
        { OOM_FULL, true, OOM_NOWHERE, OLD("2.00 MiB", "8.00 GiB", "5.00 GiB", "0 bytes", "6.40 GiB") },
        { OOM_FRAGMENTED, true, OOM_NOWHERE,
          OLD("20.00 MiB", "8.00 GiB", "5.00 GiB", "0 bytes", "6.40 GiB") },
        /* what a context and a desktop may take is no proof of others */
        { OOM_OTHERS, false, OOM_NOWHERE,
          OLD("2.60 GiB", "3.81 GiB", "129.38 MiB", "2.12 GiB", "410.00 MiB") },
    };
    check(cases, sizeof cases / sizeof *cases);
}

static void others_than_pytorch(void **state) {
    (void)state;
    static const example cases[] = {
        { OOM_BY_LOADING, true, OOM_NOWHERE,
          "_alloc_buffer: allocating 144817.04 MiB on device 0: cudaMalloc failed: out of "
          "memory\nalloc_tensor_range: "
          "failed to allocate CUDA0 buffer" },
        { OOM_CACHE, true, OOM_NOWHERE,
          "_alloc_buffer: allocating 204800.00 MiB on device 0: cudaMalloc failed: out of "
          "memory\nllama_kv_cache_init: "
          "failed to allocate buffer for kv cache" },
        { OOM_FULL, true, OOM_NOWHERE,
          "_alloc_buffer: allocating 9866.00 MiB on device 1: cudaMalloc failed: out of memory\nfailed to "
          "allocate "
          "compute buffers" },
        { OOM_UNSAID, false, OOM_NOWHERE,
          "_alloc_buffer: allocating 9866.00 MiB on device 1: cudaMalloc failed" },
        { OOM_FRAGMENTED, true, OOM_NOWHERE,
          "Attempting to reserve 6.48G at the bottom of memory. That was not possible. There are 6.78G free, "
          "0B "
          "reserved, and 3.33G reservable." },
        { OOM_FULL, true, OOM_NOWHERE,
          "Attempting to reserve 10.51G at the bottom of memory. That was not possible. There are 8.97G "
          "free, 0B "
          "reserved, and 8.97G reservable." },
        { OOM_TOO_LARGE, true, OOM_NOWHERE,
          "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 21.95G of 15.48G hbm." },
        { OOM_UNSAID, false, OOM_NOWHERE,
          "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7 bytes." },
        { OOM_FULL, false, OOM_NOWHERE,
          "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7 bytes.\n total allocation:   "
          "14.44GiB\n" },
        { OOM_OF_HOST, true, OOM_NOWHERE,
          "OOM when allocating tensor with shape[7] and type float on /device:CPU:0 by allocator cpu" },
        { OOM_OTHERS, true, OOM_NOWHERE,
          "Total memory: 7.92GiB\nFree memory: 190.31MiB\nfailed to allocate 190.31M (199557120 bytes) from "
          "device: "
          "CUDA_ERROR_OUT_OF_MEMORY" },
        { OOM_UNSAID, false, OOM_NOWHERE,
          "failed to allocate 190.31M from device: CUDA_ERROR_OUT_OF_MEMORY" },
        { OOM_UNSAID, false, OOM_BACKWARD,
          FRAME("loss.backward()") "RuntimeError: CUDA error: out of memory" },
        { OOM_BY_VALIDATION, false, OOM_VALIDATION,
          FRAME("x, in validate") "RuntimeError: CUDA error: out of memory" },
        { OOM_FULL, true, OOM_NOWHERE,
          "CUDA out of memory occurred when warming up sampler with 1024 dummy requests." },
    };
    check(cases, sizeof cases / sizeof *cases);
}

static void libraries_and_guards(void **state) {
    (void)state;
    static const example cases[] = {
        { OOM_OUTSIDE, true, OOM_NOWHERE,
          "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate" },
        /* a handle that could not be made: mostly for memory, and nothing says so */
        { OOM_OUTSIDE, false, OOM_NOWHERE,
          "Check failed: err == CUBLAS_STATUS_SUCCESS (1 vs. 0) : Create cublas handle failed" },
        { OOM_OUTSIDE, false, OOM_NOWHERE,
          "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate" },
        { OOM_OUTSIDE, false, OOM_NOWHERE, "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED" },
        { OOM_OUTSIDE, false, OOM_NOWHERE, "Unable to find a valid cuDNN algorithm to run convolution" },
        { OOM_OUTSIDE, false, OOM_NOWHERE,
          "Failed to get convolution algorithm. This is probably because cuDNN" },
        { OOM_OUTSIDE, false, OOM_NOWHERE, "GET was unable to find an engine to execute this computation" },
        { OOM_UNSAID, false, OOM_NOWHERE,
          "NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"CUDACachingAllocator" },
        { OOM_UNSAID, false, OOM_NOWHERE, "[METAL] Command buffer execution failed: Insufficient Memory" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch." },
        { OOM_OF_HOST, false, OOM_NOWHERE, "failed (exitcode: -9) local_rank: 0 (pid: 7)" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "launch.py: worker exits with return code = -9" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "[launch.py:318:sigkill_handler] Killing subprocess 143917" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "not enough memory: you tried to allocate 20971520 bytes" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "returned non-zero exit status -9." },
        { OOM_OF_HOST, false, OOM_NOWHERE, "llama runner process has terminated: signal: killed" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "zsh: killed     python train.py" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "run.sh: line 3: Killed: 9" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "# Training \"Killed\" in a container" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "# Training is 'Killed'" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "it says `Killed`" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "Your session crashed after using all available RAM." },
        { OOM_OF_HOST, true, OOM_NOWHERE, "Your notebook tried to allocate more memory than is available." },
        { OOM_OF_HOST, true, OOM_NOWHERE,
          "Error from slot1@n7: Job has gone over memory limit of 4096 megabytes" },
        { OOM_OF_HOST, true, OOM_NOWHERE,
          "Please use an instance type with more memory, or reduce the size" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "run.scope: systemd-oomd killed 27 process(es) in this unit." },
        { OOM_SHM, true, OOM_NOWHERE, "DataLoader worker (pid 7) is killed by signal: Bus\nerror. It is" },
        { OOM_SHM, true, OOM_NOWHERE, "This might be caused by insufficient shared memory (shm)." },
    };
    check(cases, sizeof cases / sizeof *cases);
}

/* Words that look like another cause's. */
static void words_are_not_mistaken(void **state) {
    (void)state;
    static const example cases[] = {
        /* more was free than was asked for: nobody else took it, whatever is not accounted for */
        { OOM_LIMIT, false, OOM_NOWHERE, OLD("1.00 GiB", "23.69 GiB", "2.00 GiB", "9.00 GiB", "3.00 GiB") },
        { OOM_LIMIT, false, OOM_NOWHERE,
          "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which "
          "8.00 GiB is free. Process 7 has 10.00 GiB memory in use. Including non-PyTorch memory, this "
          "process has 5.64 GiB memory in use. Of the allocated memory 5.00 GiB is allocated by PyTorch, and "
          "100.00 MiB is reserved by PyTorch but unallocated." },
        /* who is sure of the cache names its frame; a server that loads names its weights */
        { OOM_CACHE, true, OOM_CACHING, FRAME("self.initialize_kv_cache(kv_cache_config)") FULL },
        { OOM_BY_LOADING, true, OOM_NOWHERE, "llama_model_load: unable to allocate backend buffer" },
        { OOM_BY_SAVING, true, OOM_SAVING, FRAME("self._save_to_state_dict(destination)") FULL },
        /* what was saved before is read again */
        { OOM_BY_LOADING, true, OOM_LOADING,
          FRAME("self.save_checkpoint(path)\n    weights = torch.load(path)") FULL },
        /* an extension's error of Python's kind that names the device */
        { OOM_UNSAID, false, OOM_NOWHERE, "x\nMemoryError: cudaErrorMemoryAllocation: out of memory" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "x\nMemoryError: Unable to allocate 7.10 GiB for an array" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "ggml_cuda_host_malloc: failed to allocate 2734.38 MiB" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "container exited with status code 137" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "The node was low on resource: memory." },
        { OOM_OF_HOST, true, OOM_NOWHERE, "python invoked oom-killer: gfp_mask=0x6200ca" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "Loading\n**Killed**\n" },
        /* a message that was cut behind "already" has its device and its tensors */
        { OOM_FULL, true, OOM_NOWHERE,
          "Tried to allocate 20.00 MiB (GPU 0; 11.17 GiB total capacity; 10.62 GiB already allocate" },
    };
    check(cases, sizeof cases / sizeof *cases);
}

/* Names that programs give their own functions, by their words. */
static void names_tell_the_place(void **state) {
    (void)state;
    static const example cases[] = {
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("metrics = self.run_validation(loader)") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("File \"m.py\", line 7, in evaluateModel") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("acc = coco_evaluator.update(res)") FULL },
        { OOM_BY_VALIDATION, true, OOM_VALIDATION, FRAME("test_epoch(7)") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("model.eval()") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("validate_args(args)") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("for x in enumerate(build_val_dataloader(cfg)):") FULL },
        { OOM_BY_SAVING, true, OOM_SAVING, FRAME("checkpointer.save(step)") FULL },
        { OOM_BY_SAVING, true, OOM_SAVING, FRAME("sd = get_full_model_state_dict(model)") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("ctx.save_for_backward(x)") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("plt.savefig(x), save_image(x)") FULL },
        { OOM_BY_LOADING, true, OOM_LOADING, FRAME("self.load_lora_weights(path)") FULL },
        { OOM_BY_LOADING, true, OOM_LOADING, FRAME("runner.resume(cfg)") FULL },
        { OOM_BY_LOADING, true, OOM_LOADING, FRAME("state = paddle.load(args.path)") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("x = json.load(path)") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("x = load_model_data(path)") FULL },
        { OOM_BY_OPTIMIZER, true, OOM_OPTIMIZER, FRAME("self.optimizer_g.step()") FULL },
        { OOM_BY_OPTIMIZER, true, OOM_OPTIMIZER, FRAME("optimizers[0].step()") FULL },
        { OOM_BY_OPTIMIZER, true, OOM_OPTIMIZER, FRAME("scaler.step(opt)") FULL },
        { OOM_BY_OPTIMIZER, true, OOM_OPTIMIZER, FRAME("self.initialize_optimizer()") FULL },
        { OOM_BY_OPTIMIZER, true, OOM_OPTIMIZER, FRAME("File \"torch/optim/sgd.py\", line 7, in sgd") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("File \"torch/optim/lr_scheduler.py\", line 7, in w") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("self.optimizer_scheduler.step()") FULL },
        { OOM_BY_LOSS, true, OOM_LOSS, FRAME("lp = gather_log_probs(x, y)") FULL },
        { OOM_BY_LOSS, true, OOM_LOSS, FRAME("F.ctc_loss(x, y)") FULL },
        { OOM_BY_ATTENTION, true, OOM_ATTENTION, FRAME("return self.unfused_attention(q)") FULL },
        { OOM_BY_LOSS, true, OOM_LOSS, FRAME("logits = logits / self.temperature") FULL },
        { OOM_FULL, true, OOM_NOWHERE, FRAME("logits, x = self.net(y)") FULL },
        { OOM_BY_ATTENTION, true, OOM_ATTENTION,
          "Traceback (most recent call last):\n  File \"a/attention.py\", line 7, in forward\n    w = a @ "
          "b\n" FULL },
        { OOM_FULL, true, OOM_FORWARD,
          "Traceback (most recent call last):\n  File \"a/attention/mlp.py\", line 7, in forward\n    w = a "
          "@ b\n" FULL },
        { OOM_FULL, true, OOM_FORWARD,
          "Traceback (most recent call last):\n  File \"a/attention.py\", line 7, in forward\n    q = "
          "self.q(x)\n" FULL },
    };
    check(cases, sizeof cases / sizeof *cases);
}

/* What people say is no proof, and frames that say more count more. */
static void words_tell_the_place(void **state) {
    (void)state;
    static const example cases[] = {
        { OOM_BY_VALIDATION, false, OOM_VALIDATION, "# Evaluation OOM\n" FULL },
        { OOM_BY_VALIDATION, false, OOM_VALIDATION, "# Training works, evaluation fails\n" FULL },
        { OOM_BY_VALIDATION, false, OOM_VALIDATION, "It crashes while it runs eval.\n" FULL },
        { OOM_BY_LOADING, false, OOM_LOADING, "# CUDA out of memory when resuming training\n" FULL },
        { OOM_BY_SAVING, false, OOM_SAVING, "# OOM upon model saving\n" FULL },
        { OOM_FULL, true, OOM_BACKWARD, "# OOM when evaluating\n" FRAME("loss.backward()") FULL },
        { OOM_FULL, true, OOM_NOWHERE, "# OOM when training after loading a checkpoint\n" FULL },
        { OOM_FULL, true, OOM_NOWHERE, "# OOM when loading data\n" FULL },
        { OOM_FULL, true, OOM_NOWHERE, "# Evaluation or saving: OOM\n" FULL },
        { OOM_FULL, true, OOM_NOWHERE, "# Evaluation of models\n" FULL },
        { OOM_BY_SAVING, false, OOM_SAVING, "# \"Save every n steps\" in training causes an OOM\n" FULL },
        { OOM_BY_VALIDATION, false, OOM_VALIDATION,
          "during my evaluating it ran 'out of memory' (training went well)" },
        { OOM_FULL, true, OOM_NOWHERE,
          "y = f(when load, memory)\n" FULL }, /* a call's line, and no sentence */
        { OOM_BY_SAVING, false, OOM_SAVING, "# Model Checkpointing Causes Cuda OOM\n" FULL },
        { OOM_FULL, true, OOM_NOWHERE, "# OOM with gradient checkpointing\n" FULL },
        { OOM_FULL, true, OOM_NOWHERE, "# OOM when activation checkpointing is on\n" FULL },
        { OOM_OUTSIDE, false, OOM_NOWHERE, "# NCCL CUDA out of memory" },
        { OOM_UNSAID, false, OOM_NOWHERE, "# CUDA out of memory\nnccl" },
        { OOM_OF_HOST, false, OOM_LOADING, "# CPU OOM when resuming from a checkpoint" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "# Training causes slurm OOM error" },
        { OOM_LEAK, false, OOM_NOWHERE, "# Out of memory\ncpu ram keep increasing until out of my 64G ram" },
        { OOM_LEAK, false, OOM_NOWHERE, "memory usage gradually increases, then \"out of memory\"" },
        { OOM_BY_SAVING, false, OOM_SAVING,
          "# checkpoint saving leads to NCCL WARN Cuda failure 2 'out of memory'" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "# Runs out of memory, system memory of 64 GB" },
    };
    check(cases, sizeof cases / sizeof *cases);
}

/* Without the message itself: its end, a code, words. */
static void bare_words_are_read(void **state) {
    (void)state;
    static const example cases[] = {
        { OOM_UNSAID, false, OOM_NOWHERE,
          "llocated memory try setting max_split_size_mb to avoid fragmentation." },
        { OOM_UNSAID, false, OOM_NOWHERE, "Memory_Allocation_Failure(EL0004): Failed to allocate memory" },
        { OOM_UNSAID, false, OOM_NOWHERE, "GPU memory not enough" },
        { OOM_UNSAID, false, OOM_NOWHERE, "I get cuda memory error." },
        { OOM_OF_HOST, false, OOM_NOWHERE, "the training process was killed by kernel" },
        { OOM_LIMIT, false, OOM_NOWHERE,
          "XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 15.11 GiB." },
        { OOM_UNSAID, false, OOM_NOWHERE,
          "XPU out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 15.11 GiB." },
        { OOM_OF_HOST, false, OOM_NOWHERE, "no traceback, just a return code of -9:" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "\xe9\x94\x99\xe8\xaf\xaf\xe7\xa0\x81-9" },
        { OOM_FULL, false, OOM_NOWHERE,
          "# Resource exhausted: failed to allocate memory\nAllocator (GPU_0_bfc) ran out of memory trying "
          "to "
          "allocate 2.18GiB" },
        { OOM_UNSAID, false, OOM_NOWHERE, "it OOMs" },
        { OOM_UNSAID, false, OOM_NOWHERE, "not Enough GPU memory" },
        { OOM_UNSAID, false, OOM_NOWHERE, "\xe7\x88\x86\xe6\x98\xbe\xe5\xad\x98" },
    };
    check(cases, sizeof cases / sizeof *cases);
}

static void more_tools_are_read(void **state) {
    (void)state;
    static const example cases[] = {
        /* lines broken anywhere between words, cut, in small letters, in Chinese */
        { OOM_FULL, true, OOM_NOWHERE,
          "CUDA out of memory. Tried to\nallocate 2.00 GiB (GPU 0; 23.69 GiB total\ncapacity; 22.60 GiB "
          "already\n"
          "allocated; 2.00 MiB free; 22.70 GiB\nreserved in total by PyTorch)" },
        { OOM_UNSAID, false, OOM_NOWHERE, "RuntimeError: CUDA out of" },
        { OOM_TOO_LARGE, true, OOM_NOWHERE, "RuntimeError: Invalid buffer size: 24.00 GB" },
        { OOM_TOO_LARGE, true, OOM_NOWHERE,
          "[metal::malloc] Attempting to allocate 34359738368 bytes which is greater than the maximum "
          "allowed "
          "buffer size of 22906503168 bytes." },
        { OOM_UNSAID, false, OOM_NOWHERE, "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY" },
        { OOM_FULL, false, OOM_NOWHERE,
          "Out of memory error on GPU 0. Cannot allocate 96.000244MB memory on GPU 0, 5.928284GB memory has "
          "been "
          "allocated and available memory is only 65.687500MB." },
        { OOM_FULL, false, OOM_NOWHERE, "InternalError: Dst tensor is not initialized." },
        { OOM_OUTSIDE, true, OOM_NOWHERE, "Last error: Failed to CUDA calloc 6291456 bytes" },
        { OOM_OUTSIDE, true, OOM_NOWHERE, "rocblas_status_memory_error" },
        { OOM_OUTSIDE, false, OOM_NOWHERE, "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR" },
        { OOM_CACHE, true, OOM_NOWHERE, "Not enough memory. Please try to increase --mem-fraction-static." },
        { OOM_OTHERS, true, OOM_NOWHERE, "AssertionError: Error in memory profiling. Initial free memory 7" },
        { OOM_FULL, true, OOM_NOWHERE, "graph_reserve: failed to allocate compute buffers" },
        { OOM_CACHE, true, OOM_NOWHERE, "init: failed to allocate buffer for kv cache" },
        { OOM_OF_HOST, true, OOM_NOWHERE,
          "x: numpy Unable to allocate 58.0 GiB for an array with shape (7,)" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "E   MemoryError: x" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "$ python train.py\n> Killed.\n$" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "srun: error: n7: task 0: Out Of Memory" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "7.batch  train  OUT_OF_ME+  0:125" },
        { OOM_OF_HOST, true, OOM_NOWHERE, "1 Workers (tasks / actors) killed due to memory pressure (OOM)" },
        { OOM_OF_HOST, false, OOM_NOWHERE, "died with <Signals.SIGKILL: 9>." },
        { OOM_OF_HOST, false, OOM_NOWHERE,
          "One of the subprocesses has abruptly died during map operation." },
        { OOM_SHM, true, OOM_NOWHERE, "OSError: [Errno 28] No space left on device: '/dev/shm/7'" },
        { OOM_SHM, true, OOM_NOWHERE, "docker run x\nBus error (core dumped)" },
    };
    check(cases, sizeof cases / sizeof *cases);
    oom m;
    assert_false(oom_read("OSError: [Errno 28] No space left on device", 43, &m));
    assert_false(oom_read("Bus error", 9, &m));
}

static void growth_is_seen(void **state) {
    (void)state;
    static const example cases[] = {
        { OOM_LEAK, true, OOM_NOWHERE,
          "Epoch 0: 3149MiB / 16384MiB\nEpoch 1: 8755MiB / 16384MiB\nEpoch 2: 10173MiB / 16384MiB\nEpoch 3: "
          "13683MiB / "
          "16384MiB\n" FULL },
        { OOM_FULL, true, OOM_NOWHERE, "Epoch 0: 3149MiB / 16384MiB\nEpoch 1: 3149MiB / 16384MiB\n" FULL },
        { OOM_LEAK, false, OOM_NOWHERE, "# cuda out of memory after 15K iteration of 4 GPUs training" },
        { OOM_LEAK, false, OOM_NOWHERE, "reached 22000 iterations, it reported \"cuda out of memory\"" },
        { OOM_LEAK, false, OOM_NOWHERE, "# GPU memory leakage (CUDA out of memory after 2 epochs)" },
        { OOM_UNSAID, false, OOM_NOWHERE, "# CUDA out of memory after 3 steps" },
        { OOM_LEAK, false, OOM_NOWHERE, "# CUDA out of memory after several epochs" },
        { OOM_BY_VALIDATION, false, OOM_VALIDATION,
          "# CUDA out of memory during validation\nmax mem: 1\nmax mem: 2\nmax mem: 3\nmax mem: 4\nmax mem: "
          "5\n" },
    };
    check(cases, sizeof cases / sizeof *cases);
    static const char sure[] = "# CUDA out of memory during validation\n";
    oom m;
    assert_true(oom_read(sure, sizeof sure - 1, &m) && !oom_why(&m).sure);
}

/* What a message lacks is asked for, and what it has is not. */
static void what_is_missing_is_asked_for(void **state) {
    (void)state;
    static const struct {
        unsigned ask;
        const char *text;
    } cases[] = {
        { OOM_ASK_TRACEBACK, FULL },
        { 0, FRAME("loss.backward()") FULL },
        { OOM_ASK_REST | OOM_ASK_TRACEBACK | OOM_ASK_DEVICE,
          "CUDA out of memory. Tried to allocate 2.00 GiB" },
        { OOM_ASK_REST | OOM_ASK_TRACEBACK | OOM_ASK_DEVICE, "CUDA out of memory" },
        { OOM_ASK_TRACEBACK | OOM_ASK_DEVICE, "RuntimeError: CUDA error: out of memory" },
        { OOM_ASK_REST | OOM_ASK_TRACEBACK, "Tried to allocate 2.00 GiB (GPU 0; 11.17 GiB total capacity; "
                                            "962.69 MiB already allocated; 17.19 MiB f" },
        { OOM_ASK_DEVICE, OLD("1.69 GiB", "14.56 GiB", "649.97 MiB", "1.31 GiB", "1.01 GiB") },
        { OOM_ASK_SYSTEM, "failed (exitcode: -9) local_rank: 0 (pid: 7)" },
        { 0, "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch." },
        { 0, "This might be caused by insufficient shared memory (shm)." },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        oom m;
        assert_true(oom_read(cases[i].text, strlen(cases[i].text), &m));
        if (oom_missing(&m) != cases[i].ask) fail_msg("%s: asks for %u", cases[i].text, oom_missing(&m));
    }
}

/* As it is drawn on terminals, broken over lines, and with figures that drivers get wrong. */
static void drawn_messages_are_read(void **state) {
    (void)state;
    static const char drawn[] =
        "│ ❱  629 │   │   │   attention_probs = attention_scores.softmax(dim=-1)        │\n"
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 1024.00 MiB (GPU 0; 8.00 GiB total "
        "capacity; 12.19 "
        "GiB already\nallocated; 0 bytes free; 12.68 GiB reserved in total by PyTorch)";
    static const char wsl[] =
        "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 GiB is "
        "free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. "
        "Of the allocated memory 6.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by "
        "PyTorch but unallocated.";
    oom m;
    assert_true(oom_read(drawn, sizeof drawn - 1, &m));
    assert_int_equal(oom_why(&m).cause, OOM_BY_ATTENTION);
    assert_true(m.allocated > m.total && m.free_said);
    assert_true(oom_read(wsl, sizeof wsl - 1, &m));
    assert_int_equal(oom_why(&m).cause, OOM_FULL);
    assert_true(m.process == 0);
}

/* Nothing is read behind the end, which the address sanitizer sees. */
static void texts_end_anywhere(void **state) {
    (void)state;
    static const char whole[] =
        "File \"a/attention.py\", line 7, in forward\n    x.f(y)\n# OOM when saving in f\n"
        "CUDA out of memory, return code = -9, File \"m.py\", line 7, in _save";
    oom m;
    for (size_t n = 1; n < sizeof whole; n++) {
        char *copy = test_malloc(n);
        memcpy(copy, whole, n);
        if (oom_read(copy, n, &m)) assert_true(oom_why(&m).cause < OOM_CAUSES);
        test_free(copy);
    }
}

/* Two ranks' messages beside each other: the processes of one are not the other's. */
static void ranks_are_kept_apart(void **state) {
    (void)state;
    static const char two[] = "Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.57 GiB of which "
                              "10.00 MiB is free. Process 7 has "
                              "22.97 GiB memory in use. Of the allocated memory 20.21 GiB is allocated by "
                              "PyTorch, and 185.98 MiB is reserved "
                              "by PyTorch but unallocated.\nTried to allocate 1.00 GiB. GPU 1 has a total "
                              "capacity of 23.57 GiB of which 10.00 "
                              "MiB is free. Process 8 has 22.97 GiB memory in use. Of the allocated memory "
                              "20.21 GiB is allocated by PyTorch, "
                              "and 185.98 MiB is reserved by PyTorch but unallocated.";
    oom m;
    assert_true(oom_read(two, sizeof two - 1, &m));
    assert_true(m.gpu == 1 && m.others == 0 && m.process > 0);
    assert_int_equal(oom_why(&m).cause, OOM_FULL);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_place_decides),
                                        cmocka_unit_test(small_requests_are_nobodys),
                                        cmocka_unit_test(numbers_are_told_apart),
                                        cmocka_unit_test(others_than_pytorch),
                                        cmocka_unit_test(growth_is_seen),
                                        cmocka_unit_test(texts_end_anywhere),
                                        cmocka_unit_test(what_is_missing_is_asked_for),
                                        cmocka_unit_test(drawn_messages_are_read),
                                        cmocka_unit_test(ranks_are_kept_apart),
                                        cmocka_unit_test(names_tell_the_place),
                                        cmocka_unit_test(words_tell_the_place),
                                        cmocka_unit_test(more_tools_are_read),
                                        cmocka_unit_test(bare_words_are_read),
                                        cmocka_unit_test(doubtful_numbers_prove_nothing),
                                        cmocka_unit_test(words_are_not_mistaken),
                                        cmocka_unit_test(libraries_and_guards) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
