#include "emu/ptx/parser.h"

#include <algorithm>
#include <array>

#include "emu/ptx/parser_impl.h"

namespace sculler::emu::ptx {

std::string_view Instruction::text(std::string_view source) const {
  if (begin > source.size() || end < begin) return {};
  return source.substr(begin, end - begin);
}

const Function* Module::find(std::string_view name) const {
  for (const Function& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

Result<std::unique_ptr<Module>> parse(std::string source) {
  if (source.size() > kMaxSource) {
    return sculler::fail(ErrorCode::kBadInput, "PTX of " + std::to_string(source.size()) +
                                                   " bytes is larger than " +
                                                   std::to_string(kMaxSource));
  }
  // nvcc and cuModuleLoadData hand over C strings.
  if (const size_t nul = source.find('\0'); nul != std::string::npos) source.resize(nul);
  auto module = std::make_unique<Module>();
  module->source = std::move(source);
  Parser parser(*module);
  if (!parser.run()) {
    return tl::unexpected<Error>(
        Error{ErrorCode::kBadInput, parser.error(), "ptx:" + std::to_string(parser.error_line())});
  }
  return module;
}

Parser::Parser(Module& module) : module_(module), lexer_(module.source) {
  module_.files.emplace_back();
  advance();
}

void Parser::fail_at(uint32_t line, std::string what) {
  if (!failed()) {
    error_ = std::move(what);
    error_line_ = line;
  }
  lexer_.stop();
  token_.kind = Token::Kind::kEnd;
}

void Parser::advance() {
  previous_end_ = token_.end;
  token_ = lexer_.next();
  if (token_.kind == Token::Kind::kBad) {
    fail(token_.punct == 0 ? "malformed number or string" : "unexpected character " + token_text());
  }
}

std::string Parser::token_text() const {
  if (token_.kind == Token::Kind::kEnd) return "the end of the text";
  std::string text = "`";
  for (const char c : std::string_view(module_.source)
                          .substr(token_.begin, std::min(token_.end - token_.begin, 60u))) {
    text += c >= ' ' && c < 127 ? c : '?';
  }
  return text + "`";
}

bool Parser::accept(char c) {
  if (!token_.is(c)) return false;
  advance();
  return true;
}

bool Parser::accept_dot(std::string_view word) {
  if (!token_.is_dot(word)) return false;
  advance();
  return true;
}

void Parser::expect(char c) {
  if (!accept(c)) fail(std::string("expected `") + c + "`, found " + token_text());
}

std::string_view Parser::expect_word(const char* what) {
  if (token_.kind != Token::Kind::kWord) {
    fail(std::string("expected ") + what + ", found " + token_text());
    return {};
  }
  const std::string_view text = token_.text;
  advance();
  return text;
}

uint64_t Parser::expect_integer(const char* what, uint64_t limit) {
  if (token_.kind != Token::Kind::kInteger) {
    fail(std::string("expected ") + what + ", found " + token_text());
    return 0;
  }
  const uint64_t value = token_.value;
  if (value > limit) {
    fail(std::string(what) + " " + token_text() + " is larger than " + std::to_string(limit));
    return 0;
  }
  advance();
  return value;
}

bool Parser::run() {
  while (!at_end()) module_item();
  if (!failed()) check_uses();
  if (!failed() && module_.version_major == 0) fail_at(1, "no .version: this is not PTX");
  return !failed();
}

void Parser::module_item() {
  if (accept(';')) return;
  Linkage linkage;
  while (!at_end()) {
    if (accept_dot("visible")) {
      linkage.is_visible = true;
    } else if (accept_dot("extern")) {
      linkage.is_extern = true;
    } else if (accept_dot("weak") || accept_dot("common")) {
      linkage.is_weak = true;
    } else {
      break;
    }
  }
  if (token_.kind != Token::Kind::kDot) return fail("expected a directive, found " + token_text());
  const std::string_view word = token_.text;
  struct Named {
    std::string_view name;
    Space space;
  };
  static constexpr std::array kSpaces{
      Named{"global", Space::kGlobal}, Named{"const", Space::kConst},
      Named{"shared", Space::kShared}, Named{"local", Space::kLocal}};
  for (const Named& named : kSpaces) {
    if (word != named.name) continue;
    advance();
    Declarator declarator{named.space, linkage};
    do {
      auto variable = declarator_head(declarator);
      if (!variable) return;
      finish_variable(*variable);
      add_global(std::move(*variable));
    } while (accept(','));
    return expect(';');
  }
  if (word == "entry" || word == "func") {
    advance();
    return function(word == "entry", linkage);
  }
  if (linkage.is_visible || linkage.is_extern || linkage.is_weak) {
    return fail("expected a variable or a function, found " + token_text());
  }
  if (word == "version") return version();
  if (word == "target") return target();
  if (word == "file") return file();
  if (word == "section") return section();
  if (word == "loc") return loc();
  if (word == "pragma") return skip_to_semicolon();
  if (word == "address_size") {
    advance();
    module_.address_size = static_cast<uint32_t>(expect_integer("address size", 64));
    if (!failed() && module_.address_size != 64)
      fail(".address_size is not 64: compile for a 64-bit target");
    return;
  }
  fail("unknown directive " + token_text());
}

// `.version 9.0` reads as one floating number or as an integer and `.word`.
void Parser::version() {
  const uint32_t begin = token_.end;
  advance();
  uint32_t end = begin;
  if (token_.kind == Token::Kind::kFloat64) {
    end = token_.end;
    advance();
  } else {
    expect_integer("a version", 1000);
  }
  if (failed()) return;
  const std::string_view text = std::string_view(module_.source).substr(begin, end - begin);
  uint32_t parts[2] = {0, 0};
  size_t part = 0;
  for (const char c : text) {
    if (c == '.' && ++part > 1) return fail("malformed .version");
    if (c >= '0' && c <= '9')
      parts[part] = std::min(parts[part] * 10 + static_cast<uint32_t>(c - '0'), 1000u);
  }
  module_.version_major = parts[0];
  module_.version_minor = parts[1];
}

void Parser::target() {
  advance();
  module_.target = expect_word("a target");
  while (accept(',')) expect_word("a target option");
}

// .file INDEX "name" [, timestamp, size]
void Parser::file() {
  advance();
  const uint64_t index = expect_integer("a file index", kMaxFiles - 1);
  if (token_.kind != Token::Kind::kString)
    return fail("expected a file name, found " + token_text());
  if (module_.files.size() <= index) module_.files.resize(index + 1);
  module_.files[index] = std::string(token_.text);
  advance();
  while (accept(',')) expect_integer("a number", ~uint64_t{0});
}

void Parser::section() {
  advance();
  if (token_.kind != Token::Kind::kDot && token_.kind != Token::Kind::kWord)
    return fail("expected a section name");
  advance();
  if (!token_.is('{')) return fail("expected `{`, found " + token_text());
  if (!lexer_.skip_braces()) return fail("a section is not closed");
  advance();
}

void Parser::skip_to_semicolon() {
  while (!at_end() && !token_.is(';')) advance();
  expect(';');
}

void Parser::check_uses() {
  for (const Use& use : uses_) {
    if (globals_.count(use.name) == 0 && functions_.count(use.name) == 0) {
      return fail_at(use.line, "unknown name `" + std::string(use.name) + "`");
    }
  }
  const auto files = static_cast<uint32_t>(module_.files.size());
  for (Chain& chain : chains_) find_author(chain);
  for (Function& function : module_.functions) {
    for (Instruction& instruction : function.code) {
      if (instruction.file >= files) instruction.file = instruction.line = 0;
      if (instruction.at_file != 0) {
        const Chain& chain = chains_[instruction.at_file - 1];
        instruction.at_file = chain.author.file;
        instruction.at_line = chain.author.line;
        instruction.from_library = chain.library;
      }
      if (instruction.at_file >= files) instruction.at_file = instruction.at_line = 0;
    }
  }
}

}  // namespace sculler::emu::ptx
