// Arithmetic of NCCL's reductions: each operation in the type's own precision with one rounding, as
// the ring kernels of NCCL do for every hop.
#include <cstring>

#include "emu/device/numeric.h"
#include "emu/device/state.h"

namespace sculler::emu {

namespace {

template <class T>
struct Plain {
  using Store = T;
  using Value = T;
  static Value load(Store s) { return s; }
  static Store save(Value v) { return v; }
};
struct Half {
  using Store = uint16_t;
  using Value = float;
  static Value load(Store s) { return numeric::f16_to_float(s); }
  static Store save(Value v) { return numeric::float_to_f16(v); }
};
struct Bfloat {
  using Store = uint16_t;
  using Value = float;
  static Value load(Store s) { return numeric::bf16_to_float(s); }
  static Store save(Value v) { return numeric::float_to_bf16(v); }
};
struct E4m3 {
  using Store = uint8_t;
  using Value = float;
  static Value load(Store s) { return numeric::e4m3_to_float(s); }
  static Store save(Value v) { return numeric::float_to_e4m3(v); }
};
struct E5m2 {
  using Store = uint8_t;
  using Value = float;
  static Value load(Store s) { return numeric::e5m2_to_float(s); }
  static Store save(Value v) { return numeric::float_to_e5m2(v); }
};

template <class T>
T combine(NcclOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // Integers wrap.
    using U = std::make_unsigned_t<T>;
    using Wide = std::conditional_t<(sizeof(U) < 4), uint32_t, U>;
    if (op == NcclOp::kSum || op == NcclOp::kAvg)
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    if (op == NcclOp::kProd) return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    return op == NcclOp::kMax ? std::max(a, b) : std::min(a, b);
  } else {
    switch (op) {
      case NcclOp::kSum:
      case NcclOp::kAvg: return a + b;
      case NcclOp::kProd: return a * b;
      case NcclOp::kMax:
        return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : std::max(a, b);
      case NcclOp::kMin:
        return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : std::min(a, b);
    }
    return a;
  }
}

template <class Format, class F>
void each(void* into, const void* from, uint64_t count, F f) {
  using Store = typename Format::Store;
  auto* to = static_cast<uint8_t*>(into);
  const auto* other = static_cast<const uint8_t*>(from);
  for (uint64_t i = 0; i < count; ++i) {
    Store a;
    Store b{};
    std::memcpy(&a, to + i * sizeof(Store), sizeof(Store));
    if (other != nullptr) std::memcpy(&b, other + i * sizeof(Store), sizeof(Store));
    a = Format::save(f(Format::load(a), Format::load(b)));
    std::memcpy(to + i * sizeof(Store), &a, sizeof(Store));
  }
}

template <class F>
void dispatch(NcclType type, F f) {
  switch (type) {
    case NcclType::kInt8: return f(Plain<int8_t>{});
    case NcclType::kUint8: return f(Plain<uint8_t>{});
    case NcclType::kInt32: return f(Plain<int32_t>{});
    case NcclType::kUint32: return f(Plain<uint32_t>{});
    case NcclType::kInt64: return f(Plain<int64_t>{});
    case NcclType::kUint64: return f(Plain<uint64_t>{});
    case NcclType::kFloat16: return f(Half{});
    case NcclType::kFloat32: return f(Plain<float>{});
    case NcclType::kFloat64: return f(Plain<double>{});
    case NcclType::kBfloat16: return f(Bfloat{});
    case NcclType::kFloat8e4m3: return f(E4m3{});
    case NcclType::kFloat8e5m2: return f(E5m2{});
  }
}

}  // namespace

uint64_t type_bytes(NcclType type) {
  switch (type) {
    case NcclType::kInt8:
    case NcclType::kUint8:
    case NcclType::kFloat8e4m3:
    case NcclType::kFloat8e5m2: return 1;
    case NcclType::kFloat16:
    case NcclType::kBfloat16: return 2;
    case NcclType::kInt32:
    case NcclType::kUint32:
    case NcclType::kFloat32: return 4;
    case NcclType::kInt64:
    case NcclType::kUint64:
    case NcclType::kFloat64: return 8;
  }
  return 0;
}

const char* name(NcclType type) {
  constexpr const char* kNames[] = {"int8",    "uint8",    "int32",      "uint32",
                                    "int64",   "uint64",   "float16",    "float32",
                                    "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "an unknown type";
}

void reduce(NcclType type, NcclOp op, void* into, const void* from, uint64_t count) {
  dispatch(type, [&](auto format) {
    each<decltype(format)>(into, from, count, [op](auto a, auto b) { return combine(op, a, b); });
  });
}

void average_before(NcclType type, void* values, uint64_t count, int n) {
  dispatch(type, [&](auto format) {
    using Value = typename decltype(format)::Value;
    if constexpr (std::is_floating_point_v<Value>) {
      const Value factor = Value{1} / static_cast<Value>(n);
      each<decltype(format)>(values, nullptr, count,
                             [factor](Value a, Value) { return a * factor; });
    }
  });
}

void average_after(NcclType type, void* values, uint64_t count, int n) {
  dispatch(type, [&](auto format) {
    using Value = typename decltype(format)::Value;
    if constexpr (std::is_integral_v<Value>) {
      each<decltype(format)>(values, nullptr, count, [n](Value a, Value) -> Value {
        if constexpr (std::is_signed_v<Value>) return static_cast<Value>(a / static_cast<Value>(n));
        else return static_cast<Value>(a / static_cast<std::make_unsigned_t<Value>>(n));
      });
    }
  });
}

}  // namespace sculler::emu
