// cuBLAS' matrix products, computed on the host. Order of arithmetic: for every element of C one
// float32 accumulator (double for CUBLAS_COMPUTE_64F), k rising from 0, multiply and add rounded
// apart; then alpha * sum + beta * C, rounded once to C's type. Tensor cores sum in another order:
// results agree within the usual error of a float32 sum, not bit by bit.
#include <cstring>

#include "emu/device/numeric.h"
#include "emu/device/state.h"

namespace sculler::emu {

namespace {

uint64_t bytes_of(CudaType type) {
  switch (type) {
    case CudaType::kR32F:
    case CudaType::kR32I: return 4;
    case CudaType::kR64F: return 8;
    case CudaType::kR16F:
    case CudaType::kR16BF: return 2;
    case CudaType::kR8I: return 1;
  }
  return 0;
}

bool floating(CudaType type) {
  return type == CudaType::kR32F || type == CudaType::kR64F || type == CudaType::kR16F ||
         type == CudaType::kR16BF;
}

double load(CudaType type, Address address) {
  switch (type) {
    case CudaType::kR32F: {
      float value = 0;
      std::memcpy(&value, pointer(address), 4);
      return static_cast<double>(value);
    }
    case CudaType::kR64F: {
      double value = 0;
      std::memcpy(&value, pointer(address), 8);
      return value;
    }
    default: {
      uint16_t bits = 0;
      std::memcpy(&bits, pointer(address), 2);
      return static_cast<double>(type == CudaType::kR16F ? numeric::f16_to_float(bits)
                                                         : numeric::bf16_to_float(bits));
    }
  }
}

void store(CudaType type, Address address, double value) {
  switch (type) {
    case CudaType::kR64F: std::memcpy(pointer(address), &value, 8); break;
    case CudaType::kR32F: {
      const auto single = static_cast<float>(value);
      std::memcpy(pointer(address), &single, 4);
      break;
    }
    default: {
      const auto single = static_cast<float>(value);
      const uint16_t bits =
          type == CudaType::kR16F ? numeric::float_to_f16(single) : numeric::float_to_bf16(single);
      std::memcpy(pointer(address), &bits, 2);
    }
  }
}

constexpr int64_t kTile = 64;

// sum[column][row] over k of a[k][row] * b[k][column], tiles of kTile rows and 4 columns.
template <class T>
inline __attribute__((always_inline)) void tile_product(const T* a, const T* b, int64_t k,
                                                        T (*sum)[kTile]) {
  for (int c = 0; c < 4; ++c) std::fill(sum[c], sum[c] + kTile, T{0});
  for (int64_t i = 0; i < k; ++i, a += kTile, b += 4) {
    for (int c = 0; c < 4; ++c) {
      for (int64_t r = 0; r < kTile; ++r) sum[c][r] += a[r] * b[c];
    }
  }
}

template <class T>
void product_plain(const T* a, const T* b, int64_t k, T (*sum)[kTile]) {
  tile_product(a, b, k, sum);
}
#if defined(__x86_64__)
// Wider vectors, the same arithmetic: no fused multiply-add in this target.
template <class T>
__attribute__((target("avx2"))) void product_avx2(const T* a, const T* b, int64_t k,
                                                  T (*sum)[kTile]) {
  tile_product(a, b, k, sum);
}
#endif

template <class T>
using Product = void (*)(const T*, const T*, int64_t, T (*)[kTile]);

template <class T>
Product<T> pick() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return product_avx2<T>;
#endif
  return product_plain<T>;
}

// A matrix in column-major memory, op()ed.
struct View {
  Address base;
  CudaType type;
  int64_t ld;
  bool transposed;
  [[nodiscard]] Address at(int64_t row, int64_t column) const {
    const int64_t index = transposed ? column + row * ld : row + column * ld;
    return base + static_cast<uint64_t>(index) * bytes_of(type);
  }
};

template <class T>
void multiply(const GemmRequest& g, View a, View b, View c, double alpha, double beta) {
  const Product<T> product = pick<T>();
  const int64_t row_tiles = (g.m + kTile - 1) / kTile;
  // A packed by tiles of rows, [tile][k][row].
  std::vector<T> packed(static_cast<size_t>(row_tiles * g.k * kTile), T{0});
  for (int64_t i = 0; i < g.k; ++i) {
    for (int64_t row = 0; row < g.m; ++row) {
      packed[static_cast<size_t>(((row / kTile) * g.k + i) * kTile + row % kTile)] =
          static_cast<T>(load(a.type, a.at(row, i)));
    }
  }
  std::vector<T> columns(static_cast<size_t>(g.k * 4), T{0});
  T sum[4][kTile];
  for (int64_t column = 0; column < g.n; column += 4) {
    const int64_t width = std::min<int64_t>(4, g.n - column);
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t i = 0; i < g.k; ++i) {
        columns[static_cast<size_t>(i * 4 + x)] = static_cast<T>(load(b.type, b.at(i, column + x)));
      }
    }
    for (int64_t tile = 0; tile < row_tiles; ++tile) {
      product(packed.data() + tile * g.k * kTile, columns.data(), g.k, sum);
      const int64_t height = std::min(kTile, g.m - tile * kTile);
      for (int64_t x = 0; x < width; ++x) {
        for (int64_t row = 0; row < height; ++row) {
          const Address to = c.at(tile * kTile + row, column + x);
          T value = static_cast<T>(alpha) * sum[x][row];
          if (beta != 0) value += static_cast<T>(beta) * static_cast<T>(load(c.type, to));
          store(c.type, to, static_cast<double>(value));
        }
      }
    }
  }
}

}  // namespace

bool Machine::Impl::run_gemm(const Op& op, const GemmRequest& g, std::string* error) {
  constexpr std::string_view kWhat = "cublasGemmEx";
  const ActorId actor = op.stream->actor;
  double alpha = g.alpha;
  double beta = g.beta;
  const CudaType scale = g.compute_double ? CudaType::kR64F : CudaType::kR32F;
  if (g.alpha_pointer != 0) {
    if (!touch(op.rank, actor, Access::kLoad, g.alpha_pointer, bytes_of(scale), kWhat, op.site,
               error))
      return false;
    alpha = load(scale, g.alpha_pointer);
  }
  if (g.beta_pointer != 0) {
    if (!touch(op.rank, actor, Access::kLoad, g.beta_pointer, bytes_of(scale), kWhat, op.site,
               error))
      return false;
    beta = load(scale, g.beta_pointer);
  }
  // Ranges: one a stored column, or one for all where columns lie side by side.
  const auto ranges = [&](Access access, Address base, CudaType type, int64_t rows, int64_t columns,
                          int64_t ld) {
    const uint64_t size = bytes_of(type);
    if (rows == ld)
      return touch(op.rank, actor, access, base, static_cast<uint64_t>(rows * columns) * size,
                   kWhat, op.site, error);
    for (int64_t column = 0; column < columns; ++column) {
      if (!touch(op.rank, actor, access, base + static_cast<uint64_t>(column * ld) * size,
                 static_cast<uint64_t>(rows) * size, kWhat, op.site, error)) {
        return false;
      }
    }
    return true;
  };
  for (int64_t i = 0; i < g.batch; ++i) {
    const View a{g.a + static_cast<uint64_t>(i * g.stride_a) * bytes_of(g.a_type), g.a_type, g.lda,
                 g.transpose_a != 0};
    const View b{g.b + static_cast<uint64_t>(i * g.stride_b) * bytes_of(g.b_type), g.b_type, g.ldb,
                 g.transpose_b != 0};
    const View c{g.c + static_cast<uint64_t>(i * g.stride_c) * bytes_of(g.c_type), g.c_type, g.ldc,
                 false};
    const bool reads = alpha != 0 && g.k > 0;
    if (reads && (!ranges(Access::kLoad, a.base, g.a_type, a.transposed ? g.k : g.m,
                          a.transposed ? g.m : g.k, g.lda) ||
                  !ranges(Access::kLoad, b.base, g.b_type, b.transposed ? g.n : g.k,
                          b.transposed ? g.k : g.n, g.ldb))) {
      return false;
    }
    if (beta != 0 && !ranges(Access::kLoad, c.base, g.c_type, g.m, g.n, g.ldc)) return false;
    if (!ranges(Access::kStore, c.base, g.c_type, g.m, g.n, g.ldc)) return false;
    if (g.compute_double) multiply<double>(g, a, b, c, alpha, beta);
    else multiply<float>(g, a, b, c, alpha, beta);
  }
  return true;
}

Outcome Machine::gemm(Host host, const GemmRequest& g) {
  RankState& r = impl_->rank(host);
  const auto refuse = [&](int code, const std::string& why) {
    return Outcome{impl_->explain(r, code, "cublasGemmEx: " + why), 0};
  };
  if (r.sticky != 0) return {kCublasExecutionFailed, 0};
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto sane = [](int64_t value) { return value >= 0 && value < kMost; };
  if (!sane(g.m) || !sane(g.n) || !sane(g.k) || !sane(g.batch) || g.lda >= kMost ||
      g.ldb >= kMost || g.ldc >= kMost) {
    return refuse(kCublasInvalidValue, "a size is negative or too large");
  }
  if (std::max({g.m, g.n, g.k}) > (int64_t{1} << 20) ||
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
              static_cast<double>(g.batch) >
          1e13) {
    return refuse(kCublasNotSupported, "too large to emulate; use a smaller problem size");
  }
  if (g.transpose_a > 2 || g.transpose_b > 2)
    return refuse(kCublasInvalidValue, "unknown transposition");
  if (g.lda < std::max<int64_t>(1, g.transpose_a != 0 ? g.k : g.m) ||
      g.ldb < std::max<int64_t>(1, g.transpose_b != 0 ? g.n : g.k) ||
      g.ldc < std::max<int64_t>(1, g.m)) {
    return refuse(kCublasInvalidValue, "a leading dimension is smaller than its matrix");
  }
  if (!floating(g.a_type) || !floating(g.b_type) || !floating(g.c_type)) {
    return refuse(kCublasNotSupported, "only float, double, half and bfloat16 are emulated");
  }
  StreamState* stream = impl_->find_stream(host, g.stream);
  if (stream == nullptr)
    return refuse(kCublasExecutionFailed, "the stream does not exist on this rank");
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  TraceOp record = impl_->named(OpKind::kGemm, "cublasGemmEx");
  const auto product = [](int64_t x, int64_t y) {
    return static_cast<uint64_t>(x) * static_cast<uint64_t>(y);
  };
  const auto batch = static_cast<uint64_t>(g.batch);
  record.flops = 2 * product(g.m, g.n) * static_cast<uint64_t>(g.k) * batch;
  record.hbm_bytes =
      batch * (product(g.m, g.k) * bytes_of(g.a_type) + product(g.k, g.n) * bytes_of(g.b_type) +
               product(g.m, g.n) * bytes_of(g.c_type) * (g.beta != 0 ? 2u : 1u));
  record.float32 = g.a_type == CudaType::kR32F;
  record.mnk = {g.m, g.n, g.k};
  const int code = impl_->enqueue(host, stream, GemmWork{g}, record);
  return {code == 0 ? kCublasSuccess : kCublasExecutionFailed, 0};
}

}  // namespace sculler::emu
