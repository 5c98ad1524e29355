#include <algorithm>
#include <bit>
#include <cstring>

#include "emu/ptx/parser.h"
#include "emu/ptx/parser_impl.h"
#include "emu/ptx/type.h"

namespace sculler::emu::ptx {
namespace {

uint32_t bytes_of(const Type& type) { return std::max<uint32_t>(1, type.bits / 8u); }

void put(std::vector<uint8_t>& bytes, uint64_t at, uint64_t value, uint32_t width) {
  if (bytes.size() < at + width) bytes.resize(at + width);
  for (uint32_t i = 0; i < width; ++i)
    bytes[at + i] = i < 8 ? static_cast<uint8_t>(value >> (8 * i)) : uint8_t{0};
}

}  // namespace

// Everything up to the name: .align N, .attribute(...), .ptr [.space] [.align N], .v2, the type.
std::optional<Variable> Parser::declarator_head(const Declarator& declarator) {
  Variable variable;
  variable.space = declarator.space;
  variable.is_extern = declarator.linkage.is_extern;
  variable.is_weak = declarator.linkage.is_weak;
  variable.is_visible = declarator.linkage.is_visible;
  bool has_type = false, is_pointer = false, has_align = false;
  uint32_t lanes = 1;
  while (token_.kind == Token::Kind::kDot) {
    if (accept_dot("align")) {
      const uint64_t align = expect_integer("an alignment", 1u << 16);
      if (!std::has_single_bit(align)) {
        fail("the alignment is not a power of two");
        return std::nullopt;
      }
      // `.ptr .align` speaks of what is pointed to.
      if (!is_pointer) {
        variable.align = static_cast<uint32_t>(align);
        has_align = true;
      }
    } else if (accept_dot("ptr")) {
      is_pointer = true;
    } else if (accept_dot("attribute")) {
      expect('(');
      while (!at_end() && !token_.is(')')) advance();
      expect(')');
    } else if (accept_dot("v2")) {
      lanes = 2;
    } else if (accept_dot("v4")) {
      lanes = 4;
    } else if (accept_dot("v8")) {
      lanes = 8;
    } else if (const auto type = type_from(token_.text)) {
      variable.type = *type;
      has_type = true;
      advance();
    } else if (is_pointer &&
               (token_.is_dot("global") || token_.is_dot("const") || token_.is_dot("shared") ||
                token_.is_dot("local") || token_.is_dot("param"))) {
      advance();
    } else {
      fail("unknown type or attribute " + token_text());
      return std::nullopt;
    }
  }
  if (!has_type) {
    fail("expected a type, found " + token_text());
    return std::nullopt;
  }
  variable.bytes = uint64_t{bytes_of(variable.type)} * lanes;
  if (!has_align) variable.align = static_cast<uint32_t>(variable.bytes);
  variable.name = expect_word("a name");
  if (failed()) return std::nullopt;
  return variable;
}

// Dimensions and initialiser.
void Parser::finish_variable(Variable& variable) {
  std::vector<uint64_t> dims;
  bool open = false;
  while (accept('[')) {
    if (dims.size() == 8) return fail("more than 8 dimensions");
    if (token_.is(']')) {
      if (!dims.empty()) return fail("only the first dimension may be open");
      open = true;
      dims.push_back(0);
    } else {
      dims.push_back(expect_integer("a dimension", kMaxVariable));
    }
    expect(']');
  }
  if (failed()) return;
  const uint64_t element = variable.bytes;
  uint64_t total = element;
  for (size_t i = open ? 1 : 0; i < dims.size(); ++i) {
    if (dims[i] != 0 && total > kMaxVariable / dims[i])
      return fail("a variable larger than 64 GiB");
    total *= dims[i];
  }
  if (!dims.empty()) variable.bytes = open ? 0 : total;
  if (!accept('=')) return;
  if (variable.space != Space::kGlobal && variable.space != Space::kConst) {
    return fail("only .global and .const variables have initialisers");
  }
  const uint64_t end = open ? kMaxVariable : variable.bytes;
  uint64_t at = 0;
  if (token_.is('{')) {
    if (dims.empty()) dims.push_back(1);
    initialiser(variable, dims, 0, at, end);
  } else {
    initialiser_value(variable, 0, end);
    at = bytes_of(variable.type);
  }
  if (open) variable.bytes = total == 0 ? at : (at + total - 1) / total * total;
}

// One level of braces; `at` runs from element to element, an inner brace aligns it to its row.
void Parser::initialiser(Variable& variable, const std::vector<uint64_t>& dims, size_t depth,
                         uint64_t& at, uint64_t end) {
  expect('{');
  uint64_t row = bytes_of(variable.type);
  for (size_t i = depth + 1; i < dims.size(); ++i) row *= dims[i];
  while (!at_end() && !token_.is('}')) {
    if (token_.is('{')) {
      if (depth + 1 >= std::max<size_t>(dims.size(), 2)) return fail("initialiser nested too deep");
      const uint64_t start = at;
      const uint64_t row_end = std::min(end, start + row);
      initialiser(variable, dims, depth + 1, at, row_end);
      at = std::max(at, row_end);
    } else {
      initialiser_value(variable, at, end);
      at += bytes_of(variable.type);
    }
    if (!accept(',')) break;
  }
  expect('}');
}

// number | symbol[+n] | generic(symbol)[+n] | mask(symbol): byte k of an address, k = 0..7 in a row
void Parser::initialiser_value(Variable& variable, uint64_t at, uint64_t end) {
  const uint32_t width = bytes_of(variable.type);
  if (at + width > end) return fail("more initial values than elements");
  Operand value;
  if (literal(value)) {
    if (token_.is('(')) {
      const auto mask = static_cast<uint64_t>(value.imm);
      expect('(');
      const bool generic = token_.is_word("generic");
      if (generic) {
        advance();
        expect('(');
      }
      const Use use{expect_word("a symbol"), token_.line};
      const int64_t addend = offset();
      if (generic) expect(')');
      expect(')');
      if (failed()) return;
      const int byte = std::countr_zero(mask) / 8;
      if (mask == 0 || mask != uint64_t{0xff} << (8 * byte) || width != 1)
        return fail("a mask that is not one byte");
      if (byte == 0) {
        if (at + 8 > end) return fail("an address does not fit");
        uses_.push_back(use);
        put(variable.init, at, 0, 8);
        variable.relocations.push_back({at, use.name, addend, generic});
      } else if (variable.relocations.empty() || variable.relocations.back().symbol != use.name ||
                 variable.relocations.back().at + static_cast<uint64_t>(byte) != at) {
        return fail("the bytes of an address are out of order");
      }
      return;
    }
    uint64_t bits = static_cast<uint64_t>(value.imm);
    if (value.is_float && value.float_bits != variable.type.bits) {
      if (value.float_bits == 64 && variable.type.letter == 'f' && variable.type.bits == 32) {
        bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
      } else {
        return fail("a floating literal of another width than the variable");
      }
    }
    return put(variable.init, at, bits, width);
  }
  const bool generic = token_.is_word("generic");
  if (generic) {
    advance();
    expect('(');
  }
  const uint32_t line = token_.line;
  const std::string_view symbol = expect_word("an initial value");
  int64_t addend = generic ? 0 : offset();
  if (generic) {
    expect(')');
    addend = offset();
  }
  if (failed()) return;
  if (width != 8) return fail("an address in a variable that is not 64 bits wide");
  uses_.push_back({symbol, line});
  put(variable.init, at, 0, 8);
  variable.relocations.push_back({at, symbol, addend, generic});
}

void Parser::add_global(Variable variable) {
  if (failed()) return;
  const auto [found, fresh] = globals_.try_emplace(variable.name, module_.globals.size());
  if (fresh) {
    module_.globals.push_back(std::move(variable));
    return;
  }
  Variable& known = module_.globals[found->second];
  if (variable.is_extern) return;
  if (!known.is_extern) return fail("`" + std::string(variable.name) + "` is defined twice");
  known = std::move(variable);
}

// Names of call parameters come back scope after scope: one entry that is large enough for all
// serves them.
void Parser::add_local(Function& function, Variable variable) {
  if (failed()) return;
  const auto [found, fresh] = locals_.try_emplace(variable.name, function.locals.size());
  if (fresh) {
    function.locals.push_back(std::move(variable));
    return;
  }
  Variable& known = function.locals[found->second];
  if (known.space != Space::kParam || variable.space != Space::kParam) {
    return fail("`" + std::string(variable.name) + "` is declared twice in one function");
  }
  known.bytes = std::max(known.bytes, variable.bytes);
  known.align = std::max(known.align, variable.align);
}

// (.param .b64 a, .param .align 8 .b8 b[16], .reg .b32 c)
void Parser::parameters(std::vector<Variable>& out) {
  expect('(');
  while (!at_end() && !token_.is(')')) {
    Declarator declarator;
    if (accept_dot("param")) {
      declarator.space = Space::kParam;
    } else if (accept_dot("reg")) {
      declarator.space = Space::kReg;
    } else {
      return fail("expected .param or .reg, found " + token_text());
    }
    auto variable = declarator_head(declarator);
    if (!variable) return;
    finish_variable(*variable);
    if (out.size() == 4096) return fail("more than 4096 parameters");
    out.push_back(std::move(*variable));
    if (!accept(',')) break;
  }
  expect(')');
}

}  // namespace sculler::emu::ptx
