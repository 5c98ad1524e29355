#include <algorithm>
#include <array>

#include "emu/ptx/parser.h"
#include "emu/ptx/parser_impl.h"
#include "emu/ptx/type.h"

namespace sculler::emu::ptx {
namespace {
constexpr size_t kMaxInstructions = 8u << 20;     // a module's text bounds it too
constexpr size_t kMostChained = size_t{1} << 22;  // places of inlined code
}  // namespace

void Parser::function(bool is_entry, Linkage linkage) {
  Function function;
  function.is_entry = is_entry;
  if (token_.is_dot("attribute")) {
    advance();
    expect('(');
    while (!at_end() && !token_.is(')')) advance();
    expect(')');
  }
  if (token_.is('(')) parameters(function.returns);
  function.name = expect_word("a function's name");
  if (token_.is('(')) parameters(function.params);
  function_directives(function);
  if (failed()) return;

  // A declaration gives way to the definition.
  const auto [found, fresh] = functions_.try_emplace(function.name, module_.functions.size());
  if (!fresh && !module_.functions[found->second].is_declaration) {
    if (token_.is(';')) return advance();
    return fail("`" + std::string(function.name) + "` is defined twice");
  }
  const size_t index = found->second;
  if (accept(';')) {
    function.is_declaration = true;
  } else if (linkage.is_extern) {
    return fail("an extern function has a body");
  } else {
    body(function);
  }
  if (failed()) return;
  if (fresh) {
    module_.functions.push_back(std::move(function));
  } else {
    module_.functions[index] = std::move(function);
  }
}

void Parser::function_directives(Function& function) {
  const auto triple = [&](uint32_t(&out)[3]) {
    for (size_t i = 0; i < 3; ++i) {
      out[i] =
          i == 0 || accept(',') ? static_cast<uint32_t>(expect_integer("a size", 1u << 30)) : 1;
    }
  };
  while (token_.kind == Token::Kind::kDot) {
    if (accept_dot("maxntid")) {
      triple(function.max_threads);
    } else if (accept_dot("reqntid")) {
      triple(function.required_threads);
    } else if (accept_dot("reqnctapercluster")) {
      triple(function.cluster);
    } else if (accept_dot("minnctapersm")) {
      function.min_blocks = static_cast<uint32_t>(expect_integer("a count", 1u << 16));
    } else if (accept_dot("maxnreg")) {
      function.max_registers = static_cast<uint32_t>(expect_integer("a count", 1u << 16));
    } else if (accept_dot("maxclusterrank") || accept_dot("abi_preserve") ||
               accept_dot("abi_preserve_control")) {
      expect_integer("a number", 1u << 16);
    } else if (accept_dot("explicitcluster")) {
      function.explicit_cluster = true;
    } else if (accept_dot("noreturn")) {
      function.is_noreturn = true;
    } else if (accept_dot("blocksareclusters") || accept_dot("unified")) {
    } else if (token_.is_dot("pragma")) {
      skip_to_semicolon();
    } else if (accept_dot("attribute")) {
      expect('(');
      while (!at_end() && !token_.is(')')) advance();
      expect(')');
    } else {
      return fail("unknown directive of a function " + token_text());
    }
  }
}

void Parser::body(Function& function) {
  scopes_.clear();
  locals_.clear();
  known_.clear();
  inlined_.clear();
  place_ = {};
  chain_ = 0;
  for (const Variable& variable : function.params) known_[variable.name] = 0;
  for (const Variable& variable : function.returns) known_[variable.name] = 0;
  expect('{');
  open_scope();
  // `.func (.reg .b32 r) f (.reg .b32 a)`: parameters that are registers of the body.
  for (const auto* list : {&function.params, &function.returns}) {
    for (const Variable& variable : *list) {
      if (variable.space != Space::kReg) continue;
      const auto id = static_cast<int32_t>(function.registers.size());
      function.registers.push_back({std::string(variable.name), variable.type});
      scopes_.back().singles[variable.name] = {variable.name, 0, id};
    }
  }
  while (!at_end() && !scopes_.empty()) statement(function);
  if (!failed() && !scopes_.empty())
    fail("the body of `" + std::string(function.name) + "` is not closed");
}

void Parser::open_scope() {
  if (scopes_.size() == kMaxNesting)
    return fail("scopes nested deeper than " + std::to_string(kMaxNesting));
  scopes_.emplace_back();
}

void Parser::statement(Function& function) {
  if (accept(';')) return;
  if (token_.is('{')) {
    advance();
    return open_scope();
  }
  if (token_.is('}')) {
    close_scope(function);
    return advance();
  }
  const Token start = token_;
  if (start.is('@')) return instruction(function, start);
  if (start.kind == Token::Kind::kWord) {
    advance();
    if (accept(':')) return label(function, start.text);
    return instruction(function, start);
  }
  if (accept_dot("reg")) return registers(function);
  if (token_.is_dot("loc")) return loc();
  if (token_.is_dot("pragma")) return skip_to_semicolon();
  struct Named {
    std::string_view name;
    Space space;
  };
  static constexpr std::array kSpaces{
      Named{"param", Space::kParam}, Named{"shared", Space::kShared}, Named{"local", Space::kLocal},
      Named{"global", Space::kGlobal}, Named{"const", Space::kConst}};
  Linkage linkage;
  linkage.is_extern = accept_dot("extern");
  for (const Named& named : kSpaces) {
    if (!accept_dot(named.name)) continue;
    do {
      auto variable = declarator_head({named.space, linkage});
      if (!variable) return;
      finish_variable(*variable);
      if (named.space == Space::kGlobal || named.space == Space::kConst) {
        add_global(std::move(*variable));  // a static of the function: one a module
      } else {
        add_local(function, std::move(*variable));
      }
    } while (accept(','));
    return expect(';');
  }
  fail("expected an instruction, a label or a directive, found " + token_text());
}

// .reg .b32 %r<10>, a, b;
void Parser::registers(Function& function) {
  if (token_.kind != Token::Kind::kDot) return fail("expected a type, found " + token_text());
  const auto type = type_from(token_.text);
  if (!type) return fail("unknown type of a register " + token_text());
  advance();
  do {
    const std::string_view name = expect_word("a register's name");
    if (failed()) return;
    const auto first = static_cast<int32_t>(function.registers.size());
    uint64_t count = 0;
    if (accept('<')) {
      count = expect_integer("a register count", kMaxRegisters);
      expect('>');
    }
    if (failed()) return;
    const uint64_t n = std::max<uint64_t>(count, 1);
    if (register_count_ + n > kMaxRegisters) return fail("more than 1048576 registers in a module");
    register_count_ += static_cast<uint32_t>(n);
    Scope& scope = scopes_.back();
    if (count == 0) {
      function.registers.push_back({std::string(name), *type});
      if (!scope.singles.try_emplace(name, RegisterRange{name, 0, first}).second) {
        return fail("register `" + std::string(name) + "` is declared twice");
      }
      continue;
    }
    for (uint64_t i = 0; i < count; ++i)
      function.registers.push_back({std::string(name) + std::to_string(i), *type});
    if (scope.ranges.size() == 256) return fail("more than 256 register ranges in one scope");
    scope.ranges.push_back({name, static_cast<uint32_t>(count), first});
  } while (accept(','));
  expect(';');
}

int32_t Parser::find_register(std::string_view name) const {
  size_t digits = name.size();
  uint64_t number = 0, weight = 1;
  while (digits > 1 && name[digits - 1] >= '0' && name[digits - 1] <= '9' && weight <= 10'000'000) {
    number += weight * static_cast<uint64_t>(name[--digits] - '0');
    weight *= 10;
  }
  const std::string_view prefix = name.substr(0, digits);
  const bool plain = digits < name.size() && (name[digits] != '0' || name.size() - digits == 1);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (plain) {
      for (const RegisterRange& range : scope->ranges) {
        if (number < range.count && range.prefix == prefix)
          return range.first + static_cast<int32_t>(number);
      }
    }
    if (!scope->singles.empty()) {
      if (const auto found = scope->singles.find(name); found != scope->singles.end())
        return found->second.first;
    }
  }
  return -1;
}

void Parser::label(Function& function, std::string_view name) {
  if (accept_dot("branchtargets")) return branch_targets(function, name);
  if (token_.is_dot("calltargets") || token_.is_dot("callprototype")) {
    known_[name] = 0;
    return skip_to_semicolon();
  }
  if (!scopes_.back()
           .labels.try_emplace(name, static_cast<uint32_t>(function.code.size()))
           .second) {
    fail("label `" + std::string(name) + "` is set twice");
  }
}

void Parser::branch_targets(Function& function, std::string_view name) {
  const auto table = static_cast<uint32_t>(function.branch_tables.size());
  function.branch_tables.emplace_back();
  function.branch_table_names.push_back(name);
  do {
    const uint32_t line = token_.line;
    const std::string_view target = expect_word("a label");
    const auto entry = static_cast<uint32_t>(function.branch_tables.back().size());
    function.branch_tables.back().push_back(0);
    scopes_.back().targets.push_back({table, entry, target, line});
  } while (accept(','));
  expect(';');
  if (!scopes_.back().tables.try_emplace(name, table).second) {
    fail("label `" + std::string(name) + "` is set twice");
  }
}

// Names used in this scope become labels where it sets them; the rest is the outer scope's, and
// behind the outermost they are symbols.
void Parser::close_scope(Function& function) {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  const bool outermost = scopes_.empty();
  for (const PendingTarget& target : scope.targets) {
    if (const auto found = scope.labels.find(target.name); found != scope.labels.end()) {
      function.branch_tables[target.table][target.entry] = found->second;
    } else if (outermost) {
      return fail_at(target.line, "unknown label `" + std::string(target.name) + "`");
    } else {
      scopes_.back().targets.push_back(target);
    }
  }
  for (const PendingLabel& pending : scope.pending) {
    Operand& operand = function.code[pending.instruction].operands[pending.operand];
    if (const auto found = scope.labels.find(operand.symbol); found != scope.labels.end()) {
      operand.kind = Operand::Kind::kLabel;
      operand.imm = found->second;
    } else if (const auto table = scope.tables.find(operand.symbol); table != scope.tables.end()) {
      operand.kind = Operand::Kind::kLabel;
      operand.imm = table->second;
    } else if (!outermost) {
      scopes_.back().pending.push_back(pending);
    } else {
      uses_.push_back({operand.symbol, function.code[pending.instruction].ptx_line});
    }
  }
  if (!outermost) return;
  // What remains is the module's to know.
  size_t kept = 0;
  for (const Use& use : uses_) {
    if (known_.count(use.name) == 0 && locals_.count(use.name) == 0 &&
        globals_.count(use.name) == 0)
      uses_[kept++] = use;
  }
  uses_.resize(kept);
}

// .loc FILE LINE COLUMN [, function_name LABEL[+N], inlined_at FILE LINE COLUMN]
void Parser::loc() {
  advance();
  const auto place = [&] {
    Place out;
    out.file = static_cast<uint32_t>(expect_integer("a file index", kMaxFiles - 1));
    out.line = static_cast<uint32_t>(expect_integer("a line", ~uint32_t{0}));
    out.column = static_cast<uint32_t>(expect_integer("a column", ~uint32_t{0}));
    return out;
  };
  place_ = place();
  chain_ = 0;
  Place outer;
  bool inlined = false;
  while (accept(',')) {
    if (token_.is_word("function_name")) {
      advance();
      expect_word("a label");
      offset();
    } else if (token_.is_word("inlined_at")) {
      advance();
      outer = place();
      inlined = true;
    } else {
      return fail("expected function_name or inlined_at, found " + token_text());
    }
  }
  if (!inlined || failed()) return;
  inlined_[place_] = outer;
  std::array<Place, kMaxNesting> chain{place_, outer};
  size_t length = 2;
  while (length < chain.size()) {
    const auto next = inlined_.find(chain[length - 1]);
    if (next == inlined_.end() || next->second == chain[length - 1]) break;
    chain[length++] = next->second;
  }
  // Files are named behind the code: which place is the author's is decided once all is read.
  if (chained_ + length > kMostChained) return;
  chained_ += length;
  chains_.push_back(
      {{chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(length)}, {}, false});
  chain_ = static_cast<uint32_t>(chains_.size());
}

// Libraries lie in folders named include.
bool Parser::is_library(uint32_t file) const {
  return file < module_.files.size() && module_.files[file].find("/include/") != std::string::npos;
}

void Parser::find_author(Chain& chain) const {
  const auto& places = chain.places;
  const auto innermost_of = [&](uint32_t file) {
    return *std::find_if(places.begin(), places.end(),
                         [&](const Place& at) { return at.file == file; });
  };
  // Out to the code that nobody inlined, then back in as far as its file goes: what the author of
  // the kernel wrote.
  const uint32_t outermost = places.back().file;
  chain.author = innermost_of(outermost);
  chain.library = is_library(outermost);
  if (!chain.library) return;
  // A library's kernel (CUTLASS): the innermost place in a file that is no library's, a part that
  // the author put in; else the first file that the kernel's outermost function leads to.
  const auto own = std::find_if(places.begin(), places.end(),
                                [&](const Place& at) { return !is_library(at.file); });
  if (own != places.end()) {
    chain.author = *own;
    return;
  }
  const auto next = std::find_if(places.rbegin(), places.rend(),
                                 [&](const Place& at) { return at.file != outermost; });
  if (next != places.rend()) chain.author = innermost_of(next->file);
}

// `start` is the guard's `@`, not yet consumed, or the opcode, consumed.
void Parser::instruction(Function& function, const Token& start) {
  const uint32_t line = start.line;
  std::string_view opcode = start.text;
  Instruction out;
  if (start.is('@')) {
    advance();
    out.guard_negated = accept('!');
    const std::string_view name = expect_word("a predicate");
    if (failed()) return;
    out.guard = find_register(name);
    if (out.guard < 0) return fail_at(line, "unknown predicate `" + std::string(name) + "`");
    opcode = expect_word("an opcode");
  }
  out.opcode = opcode;
  out.ptx_line = line;
  out.begin = start.begin;
  out.file = place_.file;
  out.line = place_.line;
  out.at_file = chain_;  // for now
  while (token_.kind == Token::Kind::kDot) {
    if (out.modifiers.size() == 32) return fail("more than 32 modifiers");
    out.modifiers.push_back(token_.text);
    advance();
  }
  const auto index = static_cast<uint32_t>(function.code.size());
  while (!at_end() && !token_.is(';')) {
    if (out.operands.size() == 64) return fail("more than 64 operands");
    out.operands.emplace_back();
    Operand& last = out.operands.back();
    operand(last, 0);
    if (failed()) return;
    if (last.kind == Operand::Kind::kSymbol) {
      scopes_.back().pending.push_back({index, static_cast<uint32_t>(out.operands.size() - 1)});
    } else if (last.kind == Operand::Kind::kList || last.kind == Operand::Kind::kVector) {
      for (const Operand& element : last.elements) {
        if (element.kind == Operand::Kind::kSymbol) uses_.push_back({element.symbol, line});
      }
    }
    if (!accept(',')) break;
  }
  out.end = previous_end_;
  if (!token_.is(';')) return fail("expected `,` or `;`, found " + token_text());
  advance();
  if (index == kMaxInstructions) return fail("more than 8388608 instructions");
  function.code.push_back(std::move(out));
}

}  // namespace sculler::emu::ptx
