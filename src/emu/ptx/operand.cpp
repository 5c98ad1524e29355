#include <bit>

#include "emu/ptx/parser_impl.h"

namespace sculler::emu::ptx {
namespace {
constexpr uint32_t kMaxDepth = 4;
constexpr size_t kMaxElements = 1024;  // wgmma has 128 registers, calls have parameters
}  // namespace

// p|q and plain operands.
void Parser::operand(Operand& out, uint32_t depth) {
  simple_operand(out, depth);
  if (!token_.is('|')) return;
  advance();
  Operand second;
  simple_operand(second, depth);
  Operand pair;
  pair.kind = Operand::Kind::kPair;
  pair.elements.push_back(std::move(out));
  pair.elements.push_back(std::move(second));
  out = std::move(pair);
}

void Parser::simple_operand(Operand& out, uint32_t depth) {
  if (depth > kMaxDepth) return fail("operands nested too deep");
  if (token_.is('!')) {
    advance();
    name_operand(out);
    out.negated = true;
    return;
  }
  if (literal(out)) return;
  if (token_.is('{')) {
    advance();
    out.kind = Operand::Kind::kVector;
    return list(out.elements, '}', depth + 1);
  }
  if (token_.is('(')) {
    advance();
    out.kind = Operand::Kind::kList;
    return list(out.elements, ')', depth + 1);
  }
  if (token_.is('[')) {
    advance();
    return address(out, depth + 1);
  }
  name_operand(out);
}

void Parser::list(std::vector<Operand>& out, char close, uint32_t depth) {
  while (!at_end() && !token_.is(close)) {
    if (out.size() == kMaxElements) return fail("more than 1024 operands");
    out.emplace_back();
    operand(out.back(), depth);
    if (!accept(',')) break;
  }
  expect(close);
}

// Behind `[`: reg, symbol or number, an offset, coordinates: [%rd1+8], [param0+0], [%rd1, {%r1,
// %r2}]
void Parser::address(Operand& out, uint32_t depth) {
  if (literal(out)) {
    if (out.is_float) return fail("a floating literal as an address");
  } else {
    name_operand(out);
    if (failed()) return;
    if (out.kind == Operand::Kind::kSymbol) uses_.push_back({out.symbol, token_.line});
    if (out.kind != Operand::Kind::kRegister && out.kind != Operand::Kind::kSymbol) {
      return fail("neither a register nor a symbol in an address");
    }
    if (out.kind == Operand::Kind::kRegister) out.imm = offset();
  }
  out.kind = Operand::Kind::kAddress;
  while (accept(',')) {
    Operand element;
    operand(element, depth);
    if (failed()) return;
    if (element.kind == Operand::Kind::kVector) {
      for (Operand& coordinate : element.elements) out.elements.push_back(std::move(coordinate));
    } else {
      out.elements.push_back(std::move(element));
    }
    if (out.elements.size() > kMaxElements) return fail("more than 1024 operands");
  }
  expect(']');
}

// Nothing, +n, -n, +-n.
int64_t Parser::offset() {
  bool negative = false;
  if (accept('+')) {
    negative = accept('-');
  } else if (accept('-')) {
    negative = true;
  } else {
    return 0;
  }
  const uint64_t value = expect_integer("an offset", uint64_t{1} << 62);
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

// A number with its signs; false where there is none (nothing consumed).
bool Parser::literal(Operand& out) {
  bool negative = false, flipped = false, any = false;
  while (token_.is('-') || token_.is('+') || token_.is('~')) {
    any = true;
    if (token_.is('~')) flipped = true;
    if (token_.is('-')) negative = !negative;
    advance();
  }
  const Token token = token_;
  switch (token.kind) {
    case Token::Kind::kInteger: {
      uint64_t value = negative ? ~token.value + 1 : token.value;
      if (flipped) value = ~value;
      out.imm = static_cast<int64_t>(value);
      break;
    }
    case Token::Kind::kFloat32:
    case Token::Kind::kFloat64: {
      const bool single = token.kind == Token::Kind::kFloat32;
      out.is_float = true;
      out.float_bits = single ? 32 : 64;
      const uint64_t sign = negative ? (single ? uint64_t{1} << 31 : uint64_t{1} << 63) : 0;
      out.imm = static_cast<int64_t>(token.value ^ sign);
      break;
    }
    default:
      if (any) fail("expected a number, found " + token_text());
      return any;
  }
  out.kind = Operand::Kind::kImmediate;
  advance();
  return true;
}

// Register, special register, `_`, or a name that becomes a label or a symbol when its scope
// closes.
void Parser::name_operand(Operand& out) {
  const uint32_t begin = token_.begin;
  const std::string_view name = expect_word("an operand");
  if (failed()) return;
  if (name == "_") {
    out.kind = Operand::Kind::kSink;
    return;
  }
  out.reg = find_register(name);
  if (out.reg >= 0) {
    out.kind = Operand::Kind::kRegister;
    return;
  }
  if (name.front() == '%' || name == "WARP_SZ") {
    out.kind = Operand::Kind::kSpecial;
    if (token_.kind == Token::Kind::kDot) advance();
    out.symbol = std::string_view(module_.source).substr(begin, previous_end_ - begin);
    return;
  }
  out.kind = Operand::Kind::kSymbol;
  out.symbol = name;
  out.imm = offset();
}

}  // namespace sculler::emu::ptx
