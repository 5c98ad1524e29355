#include "verify/generate.h"

#include "sculler/fill.h"

namespace sculler::verify {
namespace {

// With the family and the type known the loop has neither branches nor calls, and becomes vectors.
template <uint32_t kFamily>
__attribute__((always_inline)) inline void words_of(uint64_t key, uint64_t begin, uint64_t end,
                                                    uint32_t family, uint32_t* words) {
  const float scale = family >> SCULLER_SCALE_SHIFT != 0
                          ? static_cast<float>(family >> SCULLER_SCALE_SHIFT) * 0.001F
                          : 1.0F;
  const uint32_t mask = (family & SCULLER_POSITIVE) != 0 ? 0x7fffffffU : 0xffffffffU;
  for (uint64_t i = begin; i < end; ++i) {
    const float x = sculler_family_value(key, i, 1, kFamily, SCULLER_F32);
    words[i - begin] = sculler_float_bits(x * scale) & mask;
  }
}

using Words = void (*)(uint64_t, uint64_t, uint64_t, uint32_t, uint32_t*);

#define SCULLER_WORDS(name, attribute)                                                       \
  attribute void name##_normal(uint64_t key, uint64_t begin, uint64_t end, uint32_t family,  \
                               uint32_t* words) {                                            \
    words_of<SCULLER_NORMAL>(key, begin, end, family, words);                                \
  }                                                                                          \
  attribute void name##_uniform(uint64_t key, uint64_t begin, uint64_t end, uint32_t family, \
                                uint32_t* words) {                                           \
    words_of<SCULLER_UNIFORM>(key, begin, end, family, words);                               \
  }
SCULLER_WORDS(plain, )
#if defined(__x86_64__)
SCULLER_WORDS(avx2, __attribute__((target("avx2"))))
SCULLER_WORDS(avx512, __attribute__((target("avx512f,avx512dq"))))
#endif
#undef SCULLER_WORDS

struct Loops {
  Words normal = plain_normal, uniform = plain_uniform;
};

Loops best_loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return {avx512_normal, avx512_uniform};
  if (__builtin_cpu_supports("avx2")) return {avx2_normal, avx2_uniform};
#endif
  return {};
}

}  // namespace

void generate(const BufferSpec& b, uint64_t key, uint64_t begin, uint64_t end, uint32_t* words) {
  static const Loops loops = best_loops();
  const uint32_t family = b.family & SCULLER_FAMILY_MASK;
  if (b.dtype == SCULLER_F32 && family == SCULLER_NORMAL)
    return loops.normal(key, begin, end, b.family, words);
  if (b.dtype == SCULLER_F32 && family == SCULLER_UNIFORM)
    return loops.uniform(key, begin, end, b.family, words);
  for (uint64_t i = begin; i < end; ++i)
    words[i - begin] = sculler_element(key, i, b.row_elements, b.family, b.dtype);
}

}  // namespace sculler::verify
