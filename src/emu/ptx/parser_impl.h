// The recursive-descent parser behind parse(): declarations in parser.cpp and variable.cpp, bodies
// in body.cpp, operands in operand.cpp. The first error stops the lexer, so that every loop sees
// the end and unwinds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emu/ptx/ir.h"
#include "emu/ptx/lexer.h"

namespace sculler::emu::ptx {

class Parser {
 public:
  explicit Parser(Module& module);
  // False on an error, which is then in error_line() and error().
  bool run();
  [[nodiscard]] uint32_t error_line() const { return error_line_; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  struct Linkage {
    bool is_extern = false, is_weak = false, is_visible = false;
  };
  // Registers `prefix0 .. prefix(count-1)`, or `prefix` alone where count is 0.
  struct RegisterRange {
    std::string_view prefix;
    uint32_t count;
    int32_t first;
  };
  struct PendingLabel {
    uint32_t instruction, operand;
  };
  struct PendingTarget {
    uint32_t table, entry;
    std::string_view name;
    uint32_t line;
  };
  struct Scope {
    std::vector<RegisterRange> ranges;
    std::unordered_map<std::string_view, RegisterRange> singles;
    std::unordered_map<std::string_view, uint32_t> labels;
    std::unordered_map<std::string_view, uint32_t> tables;
    std::vector<PendingLabel> pending;
    std::vector<PendingTarget> targets;
  };
  struct Place {
    uint32_t file = 0, line = 0, column = 0;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const {
      return (size_t{place.file} << 48) ^ (size_t{place.line} << 16) ^ place.column;
    }
  };
  struct Use {
    std::string_view name;
    uint32_t line;
  };

  // parser.cpp: tokens and module-level directives
  void fail(std::string what) { fail_at(token_.line, std::move(what)); }
  void fail_at(uint32_t line, std::string what);
  [[nodiscard]] bool failed() const { return !error_.empty(); }
  [[nodiscard]] bool at_end() const { return token_.kind == Token::Kind::kEnd; }
  void advance();
  bool accept(char c);
  bool accept_dot(std::string_view word);
  void expect(char c);
  std::string_view expect_word(const char* what);
  uint64_t expect_integer(const char* what, uint64_t limit);
  [[nodiscard]] std::string token_text() const;
  void module_item();
  void version();
  void target();
  void file();
  void section();
  void skip_to_semicolon();
  void check_uses();

  // variable.cpp
  struct Declarator {
    Space space = Space::kNone;
    Linkage linkage;
  };
  std::optional<Variable> declarator_head(const Declarator& declarator);
  void finish_variable(Variable& variable);
  void initialiser(Variable& variable, const std::vector<uint64_t>& dims, size_t depth,
                   uint64_t& at, uint64_t end);
  void initialiser_value(Variable& variable, uint64_t at, uint64_t end);
  void add_global(Variable variable);
  void add_local(Function& function, Variable variable);
  void parameters(std::vector<Variable>& out);

  // body.cpp
  void function(bool is_entry, Linkage linkage);
  void function_directives(Function& function);
  void body(Function& function);
  void statement(Function& function);
  void registers(Function& function);
  void label(Function& function, std::string_view name);
  void branch_targets(Function& function, std::string_view name);
  void open_scope();
  void close_scope(Function& function);
  void loc();
  [[nodiscard]] bool is_library(uint32_t file) const;
  // Where code that was inlined comes from, innermost place first.
  struct Chain {
    std::vector<Place> places;
    Place author;
    bool library = false;  // the outermost one is a library's
  };
  void find_author(Chain& chain) const;
  void instruction(Function& function, const Token& start);
  [[nodiscard]] int32_t find_register(std::string_view name) const;

  // operand.cpp
  void operand(Operand& out, uint32_t depth);
  void simple_operand(Operand& out, uint32_t depth);
  void address(Operand& out, uint32_t depth);
  void list(std::vector<Operand>& out, char close, uint32_t depth);
  void name_operand(Operand& out);
  bool literal(Operand& out);
  int64_t offset();

  Module& module_;
  Lexer lexer_;
  Token token_;
  uint32_t previous_end_ = 0;
  uint32_t error_line_ = 0;
  std::string error_;
  std::unordered_map<std::string_view, size_t> globals_;
  std::unordered_map<std::string_view, size_t> functions_;
  std::vector<Use> uses_;  // names to be checked against the module once all is read
  uint32_t register_count_ = 0;
  std::vector<Chain> chains_;
  size_t chained_ = 0;  // places in them

  // Of the function being read.
  std::vector<Scope> scopes_;
  std::unordered_map<std::string_view, size_t> locals_;
  std::unordered_map<std::string_view, uint32_t> known_;  // parameters, returns, prototypes
  std::unordered_map<Place, Place, PlaceHash> inlined_;
  Place place_;
  uint32_t chain_ = 0;  // of the last .loc, + 1; 0: nothing was inlined
};

}  // namespace sculler::emu::ptx
