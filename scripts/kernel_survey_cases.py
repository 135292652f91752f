"""What scripts/kernel_survey times: operations, shapes, types."""

import ctypes
import functools

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

bf16, f16, f32, f64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
f8 = torch.float8_e4m3fn
NAMES = {bf16: "bf16", f16: "fp16", f32: "fp32", f64: "fp64", f8: "fp8", torch.int64: "int64"}
CASES = []


def case(op, shape, dtype, make, call, backward=False, hot=False, tf32=False, limit=None):
    """make() -> tensors; call(*tensors) -> result, whose gradient is what is timed if backward.
    limit: the most calls that are timed at once."""
    CASES.append(dict(op=op + ("_backward" if backward else ""), shape=list(shape),
                      dtype="tf32" if tf32 else NAMES[dtype], make=make, call=call,
                      backward=backward, hot=hot, tf32=tf32, limit=limit))


def rand(*shape, dtype=bf16, grad=False):
    if dtype == f8:
        return torch.randn(*shape, device="cuda", dtype=bf16).to(f8)
    return torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_(grad)


# ---- matrix products: shape is m, n, k of the row-major result m x n


def gemm(kind, m, n, k, dtype=bf16, tf32=False, bias=False, hot=False):
    a = (k, m) if kind == "wgrad" else (m, k)          # wgrad: dy^T x
    b = (n, k) if kind == "forward" else (k, n)        # forward: x W^T; dgrad: dy W
    make = lambda: (rand(*a, dtype=dtype), rand(*b, dtype=dtype)) + (
        (rand(n, dtype=dtype),) if bias else ())
    call = {"forward": lambda x, w, c=None: F.linear(x, w, c),
            "dgrad": lambda y, w: y @ w,
            "wgrad": lambda y, x: y.t() @ x}[kind]
    case("gemm_bias" if bias else "gemm_" + kind, (m, n, k), dtype, make, call, tf32=tf32, hot=hot)


def linear(tokens, inputs, outputs, **more):
    gemm("forward", tokens, outputs, inputs, **more)
    gemm("dgrad", tokens, inputs, outputs, **more)
    gemm("wgrad", outputs, inputs, tokens, **more)


def gemms():
    for hidden in (1024, 2048, 4096, 8192, 12288, 16384):
        for tokens in (512, 2048, 8192, 16384):
            linear(tokens, hidden, hidden)
            if 8 * hidden * hidden * tokens <= 1.1e13:
                linear(tokens, hidden, 4 * hidden)
    for tokens, inputs, outputs in ((8192, 2048, 6144), (8192, 2048, 32000), (4096, 4096, 6144),
                                    (4096, 4096, 14336), (8192, 8192, 3584), (4096, 4096, 128256),
                                    (2048, 768, 2304), (8192, 768, 50304), (1000, 1000, 1000),
                                    (4096, 5120, 1728), (3000, 5000, 7000)):
        linear(tokens, inputs, outputs)
    for n in (256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384):
        gemm("forward", n, n, n)
    for m in (1, 16, 64, 128, 256):
        for hidden in (4096, 12288):
            gemm("forward", m, hidden, hidden)
    for m, n, k in ((128, 128, 65536), (512, 512, 131072), (1024, 1024, 32768), (8192, 64, 8192),
                    (8192, 8, 4096), (16384, 128, 2048), (4096, 4096, 64), (8192, 8192, 128)):
        gemm("dgrad", m, n, k)
        gemm("wgrad", m, n, k)
    for tokens, inputs, outputs in ((512, 2048, 2048), (8192, 2048, 8192), (8192, 8192, 2048),
                                    (2048, 4096, 12288), (16384, 4096, 4096)):
        gemm("forward", tokens, outputs, inputs, bias=True)
    for n in (512, 1024, 2048):
        gemm("forward", n, n, n, hot=True)
    for dtype, tf32 in ((f16, False), (f32, False), (f32, True)):
        for n in (1024, 2048, 4096, 8192):
            gemm("forward", n, n, n, dtype=dtype, tf32=tf32)
        linear(2048, 2048, 8192, dtype=dtype, tf32=tf32)
    for n in (1024, 4096):
        gemm("forward", n, n, n, dtype=f64)
    one = functools.cache(lambda: torch.ones((), device="cuda"))
    for m, n, k in ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
                    (2048, 4096, 4096), (8192, 4096, 4096), (16384, 8192, 8192),
                    (8192, 16384, 4096), (8192, 4096, 16384), (512, 8192, 8192)):
        case("scaled_mm", (m, n, k), f8, lambda m=m, n=n, k=k: (rand(m, k, dtype=f8), rand(n, k, dtype=f8)),
             lambda x, w: torch._scaled_mm(x, w.t(), one(), one(), out_dtype=bf16))
    for b, m, n, k in ((8, 1024, 4096, 2048), (8, 1024, 2048, 4096), (64, 128, 2048, 1024),
                       (64, 1024, 1024, 64), (64, 1024, 64, 1024), (64, 2048, 2048, 128),
                       (64, 2048, 128, 2048), (256, 256, 256, 256), (512, 64, 64, 64),
                       (32, 512, 512, 512), (16, 2048, 2048, 2048), (2048, 32, 32, 128)):
        case("bmm", (b, m, n, k), bf16, lambda b=b, m=m, n=n, k=k: (rand(b, m, k), rand(b, k, n)), torch.bmm)


# ---- attention: shape is batch, heads, heads of keys, sequence, head dimension, causal


def attentions(*backends):
    shapes = [(8192 // s if s < 8192 else 1, h, h, s, d, c)
              for s in (512, 1024, 2048, 4096, 8192, 16384)
              for h, d in ((16, 128), (32, 64)) for c in (True, False)]
    shapes += [(2, 32, 8, 4096, 128, True), (1, 64, 8, 8192, 128, True), (1, 4, 4, 512, 64, True),
               (1, 8, 8, 2048, 128, True), (8, 12, 12, 1024, 64, True), (2, 16, 16, 2048, 96, True),
               (4, 16, 16, 2048, 80, False)]
    for name in backends:
        backend = {"default": None, "flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                   "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}[name]
        for i, shape in enumerate(shapes):
            b, h, kv, s, d, causal = shape
            if name == "math" and s > 2048 or name == "default" and i % 4:
                continue

            def call(q, k, v, backend=backend, causal=causal, gqa=kv != h):
                attend = functools.partial(F.scaled_dot_product_attention, q, k, v, is_causal=causal,
                                           enable_gqa=gqa)
                if backend is None:
                    return attend()
                with sdpa_kernel(backend):
                    return attend()

            for back in (False, True):
                def make(b=b, h=h, kv=kv, s=s, d=d, back=back):
                    return tuple(rand(b, s, n, d).transpose(1, 2).requires_grad_(back) for n in (h, kv, kv))
                case("attention_" + name, shape, bf16, make, call, backward=back)


# ---- what is bound by memory


def element_wise():
    sizes = [10 ** e for e in range(3, 10)]
    for n in sizes:
        flat = lambda n=n, count=1, dtype=bf16: tuple(rand(n, dtype=dtype) for _ in range(count))
        one, two = (lambda n=n, f=flat: f(count=1)), (lambda n=n, f=flat: f(count=2))
        case("neg", (n,), bf16, one, torch.neg)
        case("add", (n,), bf16, two, torch.add)
        case("gelu", (n,), bf16, one, F.gelu)
        case("to_bf16", (n,), f32, lambda f=flat: f(dtype=f32), lambda x: x.to(bf16))
        case("copy", (n,), bf16, two, lambda x, y: x.copy_(y))
        case("zero", (n,), bf16, one, lambda x: x.zero_())
        case("memset", (2 * n,), bf16, one, memset)
        if n in (10 ** 5, 10 ** 6, 10 ** 7):
            case("add", (n,), bf16, two, torch.add, hot=True)
            case("gelu", (n,), bf16, one, F.gelu, hot=True)
        if n > 10 ** 8 or n < 10 ** 4:
            continue
        case("to_fp32", (n,), bf16, one, lambda x: x.to(f32))
        case("add", (n,), f32, lambda f=flat: f(count=2, dtype=f32), torch.add)
        case("gelu_backward", (n,), bf16, two, torch.ops.aten.gelu_backward)
        case("silu", (n,), bf16, one, F.silu)
        case("mul_scalar", (n,), bf16, one, lambda x: x * 2.0)
        case("add_inplace", (n,), bf16, two, lambda x, y: x.add_(y))
        case("dropout", (n,), bf16, one, lambda x: F.dropout(x, 0.1))
        case("sum", (n,), bf16, one, torch.sum)
        case("sum", (n,), f32, lambda f=flat: f(dtype=f32), torch.sum)
        case("masked_fill", (n,), bf16, lambda f=flat, n=n: f() + (torch.rand(n, device="cuda") > .5,),
             lambda x, m: x.masked_fill(m, 0.0))
    for rows, columns in ((512, 1024), (2048, 4096), (8192, 2048), (8192, 8192), (32768, 4096), (65536, 128)):
        shape = (rows, columns)
        full, row, column = (lambda s=shape: rand(*s)), (lambda c=columns: rand(c)), (lambda r=rows: rand(r, 1))
        case("add_row", shape, bf16, lambda f=full, r=row: (f(), r()), torch.add)
        case("mul_column", shape, bf16, lambda f=full, c=column: (f(), c()), torch.mul)
        case("transpose", shape, bf16, lambda f=full: (f(),), lambda x: x.t().contiguous())
        case("transpose", shape, f32, lambda s=shape: (rand(*s, dtype=f32),), lambda x: x.t().contiguous())
        case("slice", shape, bf16, lambda r=rows, c=columns: (rand(r, 3 * c),),
             lambda x, c=columns: x[:, :c].contiguous())
        case("sum_rows", shape, bf16, lambda f=full: (f(),), lambda x: x.sum(0))
        case("sum_columns", shape, bf16, lambda f=full: (f(),), lambda x: x.sum(1))
        case("cat", shape, bf16, lambda f=full: (f(), f(), f()), lambda *x: torch.cat(x, 1))
        case("cat_first", shape, bf16, lambda f=full: (f(), f(), f()), lambda *x: torch.cat(x, 0))
    for b, s, h, d in ((4, 2048, 16, 128), (1, 8192, 32, 64), (16, 512, 32, 64)):
        case("permute_heads", (b, s, h, d), bf16, lambda b=b, s=s, h=h, d=d: (rand(b, s, h, d),),
             lambda x: x.permute(0, 2, 1, 3).contiguous())
    for mb in (1e-3, 1e-2, 0.1, 1, 16, 256):
        n = int(mb * 1e6)
        for pinned in (True, False):
            for to, name in ((True, "host_to_device"), (False, "device_to_host")):
                def make(n=n, pinned=pinned, to=to):
                    host = torch.zeros(n, dtype=torch.uint8, pin_memory=pinned)
                    device = torch.zeros(n, dtype=torch.uint8, device="cuda")
                    return (device, host) if to else (host, device)
                case(name + ("_pinned" if pinned else ""), (n,), bf16, make,
                     lambda x, y, p=pinned: x.copy_(y, non_blocking=p), hot=True, limit=None if pinned else 4)


@functools.cache
def runtime():
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise RuntimeError("no CUDA runtime found")


def memset(x):
    runtime().cudaMemsetAsync(ctypes.c_void_p(x.data_ptr()), 0, ctypes.c_size_t(2 * x.numel()),
                              ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))


# ---- normalisations, losses, embeddings, optimizers


def layers():
    for rows, columns in ((512, 1024), (2048, 4096), (8192, 2048), (8192, 8192), (16384, 12288), (32768, 1024)):
        for back in (False, True):
            for dtype in (bf16, f32):
                if dtype == f32 and rows != 8192:
                    continue
                make = lambda r=rows, c=columns, t=dtype, b=back: (
                    rand(r, c, dtype=t, grad=b), rand(c, dtype=t, grad=b), rand(c, dtype=t, grad=b))
                case("layer_norm", (rows, columns), dtype, make,
                     lambda x, w, b: F.layer_norm(x, w.shape, w, b), backward=back)
                case("rms_norm", (rows, columns), dtype, lambda m=make: m()[:2],
                     lambda x, w: F.rms_norm(x, w.shape, w), backward=back)
    for rows, columns in ((8192, 512), (65536, 1024), (32768, 2048), (16384, 4096)):
        for back in (False, True):
            case("softmax", (rows, columns), bf16, lambda r=rows, c=columns, b=back: (rand(r, c, grad=b),),
                 lambda x: F.softmax(x, -1), backward=back)
    for tokens in (2048, 8192):
        for vocabulary in (32000, 128256):
            for dtype in (f32, bf16):
                for back in (False, True):
                    make = lambda t=tokens, v=vocabulary, d=dtype, b=back: (
                        rand(t, v, dtype=d, grad=b), torch.randint(v, (t,)).cuda())
                    case("cross_entropy", (tokens, vocabulary), dtype, make, F.cross_entropy, backward=back)
    for tokens, vocabulary, hidden in ((8192, 32000, 2048), (8192, 128256, 4096), (16384, 50304, 1024)):
        for back in (False, True):
            make = lambda t=tokens, v=vocabulary, h=hidden, b=back: (
                torch.randint(v, (t,)).cuda(), rand(v, h, grad=b))
            case("embedding", (tokens, vocabulary, hidden), bf16, make, F.embedding, backward=back)
    for count, size in ((100, 10 ** 4), (16, 10 ** 6), (100, 4 * 10 ** 6), (12, 64 * 10 ** 6)):
        for dtype in (bf16, f32):
            def parameters(c=count, n=size, t=dtype):
                params = [torch.nn.Parameter(rand(n, dtype=t)) for _ in range(c)]
                for p in params:
                    p.grad = rand(n, dtype=t)
                return params
            for name in ("fused", "foreach"):
                make = lambda p=parameters, n=name: (torch.optim.AdamW(p(), **{n: True}),)
                case("adamw_" + name, (count, size), dtype, make, lambda o: o.step(), limit=8)
            case("clip_grad_norm", (count, size), dtype, lambda p=parameters: tuple(p()),
                 lambda *p: torch.nn.utils.clip_grad_norm_(p, 1.0), limit=8)


def all_cases():
    gemms()
    attentions("flash", "efficient", "math")
    element_wise()
    layers()
    attentions("default", "cudnn")  # last: cuDNN takes its time to find a kernel
    return CASES
