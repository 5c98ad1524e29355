# Options every target shares: language level, warnings, sanitizers, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Programs and drop-in libraries lie together, so that they find each other without installing.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(SCULLER_TESTS "build the tests" ON)
option(SCULLER_BENCH "build the benchmarks" OFF)
option(SCULLER_WERROR "warnings are errors" OFF)
set(SCULLER_SANITIZE "" CACHE STRING "address,undefined | thread | fuzzer,address,undefined")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(sculler_warnings INTERFACE)
add_library(sculler::warnings ALIAS sculler_warnings)
target_compile_options(sculler_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align
  -Woverloaded-virtual -Wnull-dereference -Wdouble-promotion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(sculler_warnings INTERFACE -Wno-restrict  # false in std::string, GCC bug 105651
    -Wno-stringop-overflow -Wno-array-bounds -Wno-null-dereference)  # false after inlining into std::vector
endif()
if(SCULLER_WERROR)
  target_compile_options(sculler_warnings INTERFACE -Werror)
endif()

if(SCULLER_SANITIZE)
  # Only the targets of tests/fuzz link libFuzzer's main.
  string(REPLACE "fuzzer" "fuzzer-no-link" sanitize "${SCULLER_SANITIZE}")
  add_compile_options(-fsanitize=${sanitize} -fno-omit-frame-pointer -g1)
  if(SCULLER_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  add_link_options(-fsanitize=${sanitize})
endif()
