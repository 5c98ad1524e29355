// One kernel a family of instructions; the host computes the same and compares.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda/atomic>
#include <cstdint>
using u32 = uint32_t;
using u64 = uint64_t;
using s32 = int32_t;
using s64 = int64_t;
#define OUT(K, V) out[(K) * 32 + t] = (V)

extern "C" __global__ void integer32(const u32* a, const u32* b, u32* out) {
  const int t = threadIdx.x;
  const u32 x = a[t], y = b[t];
  OUT(0, __umulhi(x, y));
  OUT(1, (u32)__mulhi((s32)x, (s32)y));
  OUT(2, x / (y | 1));
  OUT(3, (u32)((s32)x / (s32)(y | 1)));
  OUT(4, x % (y | 1));
  OUT(5, (u32)((s32)x % (s32)(y | 1)));
  OUT(6, __popc(x));
  OUT(7, __clz(x));
  OUT(8, __brev(x));
  OUT(9, __ffs(x));
  OUT(10, __byte_perm(x, y, 0x5140));
  OUT(11, __funnelshift_l(x, y, 7));
  OUT(12, __funnelshift_r(x, y, t));
  OUT(13, __funnelshift_lc(x, y, t + 10));
  OUT(14, __sad((s32)x, (s32)y, 5));
  OUT(15, __usad(x, y, 5));
  OUT(16, __dp4a((int)x, (int)y, 3));
  OUT(17, __dp4a(x, y, 3u));
  OUT(18, __mul24((int)x, (int)y));
  OUT(19, __umul24(x, y));
  OUT(20, min((s32)x, (s32)y));
  OUT(21, max(x, y));
  OUT(22, abs((s32)x));
  u32 r;
  asm("bfe.u32 %0, %1, %2, 9;" : "=r"(r) : "r"(x), "r"(t));
  OUT(23, r);
  asm("bfe.s32 %0, %1, %2, 9;" : "=r"(r) : "r"(x), "r"(t));
  OUT(24, r);
  asm("bfi.b32 %0, %1, %2, %3, 11;" : "=r"(r) : "r"(x), "r"(y), "r"(t));
  OUT(25, r);
  asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(x));
  OUT(26, r);
  asm("bfind.shiftamt.s32 %0, %1;" : "=r"(r) : "r"(x));
  OUT(27, r);
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(r) : "r"(x), "r"(y), "r"(x >> 3));
  OUT(28, r);
  asm("add.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  OUT(29, r);
  asm("slct.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(x ^ y));
  OUT(30, r);
  asm("mad.hi.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(7));
  OUT(31, r);
  asm("{.reg .u16 l, h; .reg .b32 p; mov.b32 {l, h}, %1; mul.wide.u16 p, l, h; mov.b32 %0, p;}" : "=r"(r) : "r"(x));
  OUT(32, r);
  asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(t));
  OUT(33, r);
  asm("set.lt.u32.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  OUT(34, r);
  asm("{.reg .pred p, q; setp.lt.u32 q, %1, 99; setp.gt.and.s32 p|q, %1, %2, q; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2;}" : "=r"(r) : "r"(x), "r"(y));
  OUT(35, r);
  asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(t + 5));
  OUT(36, r);
  asm("min.s16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  OUT(37, r);
}
extern "C" __global__ void integer64(const u64* a, const u64* b, u64* out) {
  const int t = threadIdx.x;
  const u64 x = a[t], y = b[t];
  OUT(0, __umul64hi(x, y));
  OUT(1, (u64)__mul64hi((s64)x, (s64)y));
  OUT(2, x / (y | 1));
  OUT(3, (u64)((s64)x % (s64)(y | 1)));
  OUT(4, __popcll(x));
  OUT(5, __clzll(x));
  OUT(6, __brevll(x));
  OUT(7, x << (t * 3));
  OUT(8, x >> (t * 3));
  OUT(9, (u64)((s64)x >> t));
  const unsigned __int128 p = (unsigned __int128)x * y + ((unsigned __int128)y << 64) + x;
  OUT(10, (u64)p);
  OUT(11, (u64)(p >> 64));
  const __int128 q = (__int128)(s64)x - ((__int128)(s64)y << 31);
  OUT(12, (u64)q);
  OUT(13, (u64)(q >> 64));
  u64 r;
  asm("bfe.s64 %0, %1, %2, 17;" : "=l"(r) : "l"(x), "r"(t * 2));
  OUT(14, r);
  asm("bfi.b64 %0, %1, %2, %3, 20;" : "=l"(r) : "l"(x), "l"(y), "r"(t));
  OUT(15, r);
  OUT(16, (u64)(s64)(signed char)x);
  OUT(17, (u64)(short)x);
  OUT(18, max((s64)x, (s64)y));
}
extern "C" __global__ void float32(const float* a, const float* b, float* out) {
  const int t = threadIdx.x;
  const float x = a[t], y = b[t];
  OUT(0, __fadd_rn(x, y));
  OUT(1, __fmul_rz(x, y));
  OUT(2, __fadd_ru(x, y));
  OUT(3, __fadd_rd(x, y));
  OUT(4, __fmaf_rn(x, y, 0.3f));
  OUT(5, __fmaf_rz(x, y, 0.3f));
  OUT(6, __fdiv_rn(x, y));
  OUT(7, __fsqrt_rn(fabsf(x)));
  OUT(8, __frcp_rn(x));
  OUT(9, fminf(x, y));
  OUT(10, fmaxf(x, y));
  OUT(11, copysignf(x, y));
  OUT(12, __saturatef(x));
  OUT(13, rintf(x));
  OUT(14, truncf(x));
  OUT(15, floorf(x));
  OUT(16, ceilf(x));
  OUT(17, fabsf(x));
  OUT(18, -x);
  float r;
  asm("add.ftz.f32 %0, %1, %2;" : "=f"(r) : "f"(x * 1e-38f), "f"(y * 1e-39f));
  OUT(19, r);
  asm("{.reg .pred p; testp.normal.f32 p, %1; selp.f32 %0, 1.0, 0.0, p;}" : "=f"(r) : "f"(x * 1e-38f));
  OUT(20, r);
  asm("set.ltu.f32.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  OUT(21, r);
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  OUT(22, r);
}
extern "C" __global__ void approximate(const float* a, float* out) {
  const int t = threadIdx.x;
  const float x = a[t];
  OUT(0, __expf(x));
  OUT(1, __logf(fabsf(x)));
  OUT(2, __sinf(x));
  OUT(3, __cosf(x));
  OUT(4, rsqrtf(fabsf(x)));
  OUT(5, __fdividef(1.0f, x));
  OUT(6, tanhf(x));
  OUT(7, expf(x));
  OUT(8, logf(fabsf(x)));
  OUT(9, sinf(x));
  OUT(10, powf(fabsf(x), 1.7f));
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  OUT(11, r);
  OUT(12, erff(x));
  OUT(13, 1.0f / x);
}
extern "C" __global__ void float64(const double* a, const double* b, double* out) {
  const int t = threadIdx.x;
  const double x = a[t], y = b[t];
  OUT(0, x + y);
  OUT(1, x * y);
  OUT(2, x / y);
  OUT(3, sqrt(fabs(x)));
  OUT(4, fma(x, y, 1.5));
  OUT(5, exp(x));
  OUT(6, log(fabs(x)));
  OUT(7, fmin(x, y));
  OUT(8, __dadd_rz(x, y));
  OUT(9, rint(x));
  OUT(10, pow(fabs(x), 0.3));
}
extern "C" __global__ void conversions(const float* f, const double* d, const s64* i, u64* out) {
  const int t = threadIdx.x;
  const float x = f[t];
  OUT(0, (u64)(s64)__float2int_rn(x));
  OUT(1, (u64)(s64)__float2int_rz(x));
  OUT(2, (u64)(s64)__float2int_ru(x));
  OUT(3, (u64)(s64)__float2int_rd(x));
  OUT(4, (u64)__float2uint_rz(x));
  OUT(5, (u64)__float2ll_rn(x));
  OUT(6, __float2ull_rz(x));
  OUT(7, (u64)(s64)__double2int_rn(d[t]));
  OUT(8, (u64)__double2ll_rz(d[t]));
  OUT(9, __float_as_uint(__double2float_rz(d[t])));
  OUT(10, __float_as_uint(__double2float_ru(d[t])));
  OUT(11, __float_as_uint(__ll2float_rn(i[t])));
  OUT(12, __float_as_uint(__ll2float_rz(i[t])));
  OUT(13, __double_as_longlong(__ll2double_rn(i[t])));
  OUT(14, __float_as_uint(__int2float_rn((int)i[t])));
  OUT(15, __float_as_uint(__uint2float_rn((u32)i[t])));
  OUT(16, (u64)(unsigned char)i[t]);
  OUT(17, (u64)(u32)(int)(signed char)i[t]);
  OUT(18, (u64)(unsigned short)i[t]);
  u32 r;
  asm("cvt.sat.s8.s32 %0, %1;" : "=r"(r) : "r"((int)i[t]));
  OUT(19, r);
  asm("cvt.sat.u16.s32 %0, %1;" : "=r"(r) : "r"((int)i[t]));
  OUT(20, r);
  asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(r) : "r"((int)i[t]), "r"((int)(i[t] >> 20)));
  OUT(21, r);
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  OUT(22, r);
}
extern "C" __global__ void halves(const float* a, const float* b, u32* out) {
  const int t = threadIdx.x;
  const float x = a[t], y = b[t];
  const __half h = __float2half_rn(x), g = __float2half_rn(y);
  const __nv_bfloat16 p = __float2bfloat16_rn(x), q = __float2bfloat16_rn(y);
  auto hb = [](__half v) { return (u32)__half_as_ushort(v); };
  auto bb = [](__nv_bfloat16 v) { return (u32)__bfloat16_as_ushort(v); };
  OUT(0, hb(h));
  OUT(1, bb(p));
  OUT(2, hb(__hadd(h, g)));
  OUT(3, hb(__hmul(h, g)));
  OUT(4, hb(__hfma(h, g, h)));
  OUT(5, bb(__hadd(p, q)));
  OUT(6, bb(__hmul(p, q)));
  OUT(7, bb(__hfma(p, q, p)));
  OUT(8, hb(__float2half_rz(x)));
  OUT(9, bb(__float2bfloat16_rz(x)));
  const __half2 hh = __floats2half2_rn(x, y);
  const __nv_bfloat162 pp = __floats2bfloat162_rn(x, y);
  const __half2 hs = __hadd2(hh, hh);
  const __nv_bfloat162 ps = __hfma2(pp, pp, pp);
  OUT(10, *(const u32*)&hh);
  OUT(11, *(const u32*)&pp);
  OUT(12, *(const u32*)&hs);
  OUT(13, *(const u32*)&ps);
  OUT(14, __float_as_uint(__half2float(h)));
  OUT(15, __float_as_uint(__bfloat162float(p)));
  OUT(16, (u32)__hlt(h, g) | (u32)__hge(p, q) << 1);
  OUT(17, hb(__hmax(h, g)));
  OUT(18, bb(__hmin(p, q)));
  OUT(19, hb(__hneg(h)) | bb(__habs(p)) << 16);
  OUT(20, (u32)__nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE, __NV_E4M3));
  OUT(21, (u32)__nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE, __NV_E5M2));
  const __half2_raw back = __nv_cvt_fp8x2_to_halfraw2(__nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE, __NV_E4M3), __NV_E4M3);
  OUT(22, (u32)back.x | (u32)back.y << 16);
  OUT(23, (u32)__half2int_rn(h));
}
struct alignas(16) Quad { u64 a, b; };
extern "C" __global__ void memory(const uint4* in, uint4* out4, u64* out, unsigned char* bytes, short* shorts) {
  const int t = threadIdx.x;
  out4[t] = in[(t * 7) % 32];
  out4[32 + t] = __ldg(&in[t]);
  bytes[t] = (unsigned char)in[t].x;
  shorts[t] = (short)in[t].y;
  __syncwarp();
  OUT(0, (u64)(s64)shorts[(t + 1) % 32] + bytes[(t + 3) % 32]);
  u64 local[8];
  for (int k = 0; k < 8; ++k) local[k] = in[t].z * (k + 1);
  u64 s = 0;
  for (int k = 0; k < 8; ++k) s += local[(in[t].w + k * k) & 7] << k;  // indexed: stays in local memory
  OUT(1, s);
  asm volatile("{.reg .b128 v; .reg .b64 l, h; ld.global.b128 v, [%0]; mov.b128 {l, h}, v; mov.b128 v, {h, l}; st.global.b128 [%1], v;}" ::"l"(in + t), "l"(out4 + 64 + t) : "memory");
  asm volatile("{.reg .b64 l, h; ld.relaxed.gpu.global.L1::no_allocate.v2.b64 {l, h}, [%0]; st.release.sys.global.b64 [%1], h;}" ::"l"(in + t), "l"(out + 64 + t) : "memory");
  u32 m;
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(m) : "l"(in + t));
  asm volatile("{.reg .u64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0; st.global.L2::cache_hint.u32 [%0], %1, p;}" ::"l"(out + 96 + t), "r"(m) : "memory");
  asm volatile("prefetch.global.L2 [%0];" ::"l"(in));
  asm volatile("ld.mmio.relaxed.sys.global.u32 %0, [%1];" : "=r"(m) : "l"(in + t));
  OUT(4, m);
}
extern "C" __global__ void atomics(u32* w, u64* l, float* f, double* d, __nv_bfloat162* bf, __half2* h, u32* out) {
  const int t = threadIdx.x;
  atomicAdd(&w[0], t);
  atomicMax((int*)&w[1], 5 - t);
  atomicMin(&w[2], 100 - t);
  atomicAnd(&w[3], ~(1u << t));
  atomicOr(&w[4], 1u << t);
  atomicXor(&w[5], t);
  atomicInc(&w[6], 9);
  atomicDec(&w[7], 9);
  atomicAdd((unsigned long long*)&l[0], (unsigned long long)t << 33);
  atomicMax((long long*)&l[1], (long long)t - 50);
  atomicAdd(&f[0], 0.5f);
  atomicAdd(&d[0], 0.25);
  atomicAdd(bf, __floats2bfloat162_rn(1.0f, 2.0f));
  atomicAdd(h, __floats2half2_rn(0.5f, 1.0f));
  atomicExch(&w[8], 77u);
  while (atomicCAS(&w[9], (u32)t, (u32)t + 1) != (u32)t) {}
  cuda::atomic_ref<u32, cuda::thread_scope_system> r(w[10]);
  r.fetch_add(2, cuda::memory_order_acq_rel);
  cuda::atomic_ref<u64, cuda::thread_scope_device> q(l[2]);
  q.fetch_add(3, cuda::memory_order_seq_cst);
  u32 expected = 0;
  OUT(0, r.compare_exchange_strong(expected, 1u, cuda::memory_order_acquire));
  asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %2, %2};" ::"l"(f + 4), "f"(1.0f), "f"(2.0f) : "memory");
  asm volatile("{.reg .b128 a, b, c; mov.b128 a, {%1, %1}; mov.b128 b, {%2, %1}; atom.global.cas.b128 c, [%0], a, b;}" ::"l"(l + 4), "l"((u64)0), "l"((u64)t + 1) : "memory");
  __shared__ u32 s[2];
  if (t < 2) s[t] = 0;
  __syncthreads();
  atomicAdd(&s[t & 1], 1u);
  asm volatile("red.relaxed.cta.shared.add.u32 [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(&s[0])), "r"(t) : "memory");
  __syncthreads();
  OUT(1, s[0]);
  OUT(2, s[1]);
}
extern "C" __global__ void warp(u32* out) {
  const u32 t = threadIdx.x;
  OUT(0, __shfl_up_sync(~0u, t, 3));
  OUT(1, __shfl_down_sync(~0u, t, 5, 16));
  OUT(2, __shfl_sync(~0u, t, t * 3, 8));
  OUT(3, __ballot_sync(~0u, t % 3 == 0));
  OUT(4, (u32)__all_sync(~0u, t < 32) | (u32)__any_sync(~0u, t == 40) << 1);
  OUT(5, __match_any_sync(~0u, t / 5));
  int same;
  OUT(6, __match_all_sync(~0u, t / 64, &same) + same);
  OUT(7, __reduce_add_sync(~0u, t));
  OUT(8, __reduce_max_sync(~0u, t ^ 5));
  OUT(9, __reduce_xor_sync(~0u, t * 77));
  OUT(10, __activemask());
  u32 r;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(r));
  OUT(11, r);
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r));
  OUT(12, r);
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r));
  OUT(13, r);
  u32 v = 0;
  if (t & 1) v = __reduce_add_sync(0xaaaaaaaau, t);
  OUT(14, v);
  OUT(15, clock() != 0);
  __nanosleep(100);
}
extern "C" __global__ void matrix_moves(const u32* in, u32* out) {
  __shared__ __align__(16) u32 s[128], d[128];
  const int t = threadIdx.x;
  for (int k = 0; k < 4; ++k) s[k * 32 + t] = in[k * 32 + t], d[k * 32 + t] = 0;
  __syncwarp();
  u32 r[4];
  const u32 p = (u32)__cvta_generic_to_shared(s) + t * 16, q = (u32)__cvta_generic_to_shared(d) + t * 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
  for (int k = 0; k < 4; ++k) OUT(k, r[k]);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%4], {%0,%1,%2,%3};" ::"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(q) : "memory");
  __syncwarp();
  for (int k = 0; k < 4; ++k) OUT(4 + k, d[k * 32 + t]);
  u32 m;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(m) : "r"(r[0]));
  OUT(8, m);
  u32 x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"((u32)__cvta_generic_to_shared(s) + (t % 8) * 16));
  OUT(9, x);
}
extern "C" __global__ void async_copies(const char* in, char* out, int n) {
  __shared__ __align__(16) char s[32 * 16 * 3];
  const int t = threadIdx.x;
  const u32 p = (u32)__cvta_generic_to_shared(s) + t * 16;
  for (int k = 0; k < 3; ++k) *(uint4*)(s + k * 512 + t * 16) = make_uint4(~0u, ~0u, ~0u, ~0u);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(p), "l"(in + t * 16), "r"(t % 17) : "memory");
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(p + 512), "l"(in + t * 16) : "memory");
  asm volatile("cp.async.ca.shared.global [%0+1032], [%1+8], 4;" ::"r"(p), "l"(in + t * 16) : "memory");
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  ((uint4*)out)[t] = *(uint4*)(s + t * 16);
  ((uint4*)out)[32 + t] = *(uint4*)(s + 512 + t * 16);
  asm volatile("cp.async.wait_all;" ::: "memory");
  ((uint4*)out)[64 + t] = *(uint4*)(s + 512 + t * 16);
  ((uint4*)out)[96 + t] = *(uint4*)(s + 1024 + t * 16);
}
extern "C" __global__ void barriers_in_memory(const u32* in, u32* out) {
  __shared__ __align__(8) u64 bar;
  __shared__ __align__(16) u32 s[128];
  const int t = threadIdx.x;
  const u32 b = (u32)__cvta_generic_to_shared(&bar);
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(b) : "memory");
  __syncthreads();
  for (u32 phase = 0; phase < 2; ++phase) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((u32)__cvta_generic_to_shared(s + t)), "l"(in + phase * 128 + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory");
    u32 done;
    do {
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(b), "r"(phase) : "memory");
    } while (!done);
    out[phase * 128 + t] = s[127 - t];
    __syncthreads();
  }
}
__device__ int pick(int k) {
  switch (k) {
    case 0: return 11; case 1: return 7; case 2: return 5; case 3: return 88; case 4: return -1; case 5: return 42; case 6: return 3;
    default: return 0;
  }
}
extern "C" __global__ void control(const int* in, int* out) {
  const int t = threadIdx.x;
  OUT(0, pick(in[t]));
  int r;
  asm volatile("{.reg .u32 i; .reg .pred p; mov.u32 i, %1; tbl: .branchtargets L0, L1, L2; brx.idx i, tbl; L0: mov.u32 %0, 100; bra D; L1: mov.u32 %0, 200; bra D; L2: mov.u32 %0, 300; D:}" : "=r"(r) : "r"(t % 3));
  OUT(1, r);
  OUT(2, __syncthreads_count(t & 1));
}
extern "C" __global__ void spaces(const int* __restrict__ g, u32* out) {
  __shared__ int s[32];
  int l[2] = {1, 2};
  const int t = threadIdx.x;
  s[t] = t;
  const void* p = t % 3 == 0 ? (const void*)&s[t] : t % 3 == 1 ? (const void*)&g[t] : (const void*)&l[t & 1];
  OUT(0, (u32)__isShared(p) | (u32)__isGlobal(p) << 1 | (u32)__isLocal(p) << 2);
  const volatile int* q = t < 16 ? &s[t] : &s[31 - t];
  OUT(1, *q);
}
extern "C" __global__ void checked(const int* v) { 
  if (v[threadIdx.x] == 3) __trap();
}
