# The few kinds of targets in this tree. All of them take a list of sources that may be empty,
# because folders come and go while the tree grows.

set(STRAND_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")
define_property(GLOBAL PROPERTY STRAND_TEST_LIST
  BRIEF_DOCS "Lines for the test runner: KIND NAME PATH")

# One precompiled header for the library, one for tests: owned by two targets without code of
# their own, reused by all others.
add_library(strand_pch OBJECT "${STRAND_CMAKE_DIR}/empty.cc")
target_link_libraries(strand_pch PRIVATE strand_flags Threads::Threads)
target_precompile_headers(strand_pch PRIVATE "${STRAND_CMAKE_DIR}/pch.h")

# strand_library(NAME SOURCES...): a static library.
function(strand_library name)
  if(NOT ARGN)
    set(ARGN "${STRAND_CMAKE_DIR}/empty.cc")
  endif()
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PRIVATE strand_flags PUBLIC Threads::Threads)
  target_precompile_headers(${name} REUSE_FROM strand_pch)
endfunction()

# strand_executable(NAME SOURCES...): a program. No sources, no program.
function(strand_executable name)
  if(NOT ARGN)
    return()
  endif()
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE strand_flags strand::strand)
  target_compile_definitions(${name} PRIVATE
    "STRAND_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"" "STRAND_BINARY_DIR=\"${PROJECT_BINARY_DIR}\"")
  # All programs land in build/<preset>/, where people look for them.
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  if(NOT name MATCHES "_tests$")
    target_precompile_headers(${name} REUSE_FROM strand_pch)
  endif()
endfunction()

# Compiling tests takes far longer than running them: they are not optimised, the library is.
function(strand_is_test name)
  set_target_properties(${name} PROPERTIES STRAND_TEST ON)
  target_compile_options(${name} PRIVATE -O0)
endfunction()

# strand_tests(NAME SOURCES...): a GoogleTest program, known to the test runner.
function(strand_tests name)
  if(NOT ARGN)
    return()
  endif()
  if(NOT TARGET strand_test_pch)
    add_library(strand_test_pch OBJECT "${STRAND_CMAKE_DIR}/empty.cc")
    target_link_libraries(strand_test_pch PRIVATE strand_flags Threads::Threads GTest::gmock)
    target_precompile_headers(strand_test_pch PRIVATE "${STRAND_CMAKE_DIR}/pch_test.h")
    strand_is_test(strand_test_pch)
  endif()
  strand_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE strand_internals strand_model GTest::gtest_main GTest::gmock)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_precompile_headers(${name} REUSE_FROM strand_test_pch)
  strand_is_test(${name})
  strand_list_test(gtest ${name})
endfunction()

# strand_list_test(gtest|example TARGET): lets the test runner (and ctest) know of a program. With the
# property STRAND_WHOLE it is not split: what it starts once would be started once a part.
function(strand_list_test kind name)
  add_test(NAME ${name} COMMAND ${name})
  set(whole "$<BOOL:$<TARGET_PROPERTY:${name},STRAND_WHOLE>>")
  set_property(GLOBAL APPEND_STRING PROPERTY STRAND_TEST_LIST
    "$<IF:${whole},whole,${kind}> ${name} $<TARGET_FILE:${name}>\n")
endfunction()

# Writes build/<preset>/tests.txt, which cmake/run_tests.py reads.
function(strand_write_test_list)
  get_property(lines GLOBAL PROPERTY STRAND_TEST_LIST)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/tests.txt" CONTENT "${lines}")
endfunction()
