# sculler_module(<name> SOURCES ... [PUBLIC ...] [PRIVATE ...])
# A module is one static target `sculler_<name>`, alias `sculler::<name>`; headers are included as "<name>/x.h".
function(sculler_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(sculler_${name} STATIC ${ARG_SOURCES})
  add_library(sculler::${name} ALIAS sculler_${name})
  target_include_directories(sculler_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(sculler_${name} PUBLIC ${ARG_PUBLIC} PRIVATE sculler::warnings ${ARG_PRIVATE})
endfunction()

# sculler_program(<name> SOURCES ... LIBS ...): an executable in bin/. libstdc++ and libgcc are linked in, so that a
# build made on an older Linux runs on a newer one that has no C++ library.
function(sculler_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sculler::warnings ${ARG_LIBS})
  if(NOT SCULLER_SANITIZE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# sculler_test(<name> SOURCES ... LIBS ... [LABELS ...]): a GoogleTest program registered with ctest.
function(sculler_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(SCULLER_SANITIZE)  # up to twenty times slower
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(test_${name} PRIVATE
    SCULLER_SOURCE_DIR="${PROJECT_SOURCE_DIR}" SCULLER_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(test_${name} PRIVATE sculler::warnings ${ARG_LIBS} GTest::gtest_main GTest::gmock)
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
