# How everything of ours is compiled: the target strand_flags, linked privately by each target, so
# that our warnings and hardening never reach a project that uses Strand as a subdirectory.

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(WARNING "Strand is built and tested with clang 19 only; this is ${CMAKE_CXX_COMPILER_ID}.")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_library(STRAND_XXHASH_LIBRARY xxhash REQUIRED)
# RocksDB's archive rather than its shared library: it counts in thread-local variables all the
# time, which cost a call each in a shared library and nothing in a program.
find_library(STRAND_ROCKSDB_ARCHIVE librocksdb.a REQUIRED)
set(STRAND_ROCKSDB_LIBRARY "${STRAND_ROCKSDB_ARCHIVE}" snappy lz4 zstd bz2 z ${CMAKE_DL_LIBS})
find_package(SQLite3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq>=14)
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET grpc++>=1.51 protobuf)
find_package(Boost 1.81 REQUIRED COMPONENTS json)

# ccache, when it is there. Precompiled headers are cached only with these sloppiness settings
# (and with -fno-pch-timestamp below): see "Precompiled headers" in ccache's manual.
find_program(STRAND_CCACHE ccache)
if(STRAND_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER env
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    "${STRAND_CCACHE}")
endif()

add_library(strand_flags INTERFACE)
target_compile_options(strand_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor
  -Wold-style-cast -Wcast-qual -Wformat=2 -Wimplicit-fallthrough -Wnull-dereference -Wextra-semi
  -fno-omit-frame-pointer)
target_compile_definitions(strand_flags INTERFACE _GLIBCXX_ASSERTIONS)

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(strand_flags INTERFACE -Wthread-safety "SHELL:-Xclang -fno-pch-timestamp")
  target_link_options(strand_flags INTERFACE -fuse-ld=lld)
endif()

# Position independence is spelled out instead of left to POSITION_INDEPENDENT_CODE: that one gives
# libraries -fPIC and executables -fPIE, and then they cannot share one precompiled header.
target_compile_options(strand_flags INTERFACE -fPIE)
target_link_options(strand_flags INTERFACE -pie -Wl,-z,relro,-z,now -Wl,--as-needed)

if(STRAND_SANITIZE)
  target_compile_options(strand_flags INTERFACE
    "-fsanitize=${STRAND_SANITIZE}" -fno-sanitize-recover=all)
  target_link_options(strand_flags INTERFACE "-fsanitize=${STRAND_SANITIZE}")
elseif(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" OR CMAKE_BUILD_TYPE STREQUAL "Release")
  # Not beside sanitizers, which bring their own checks and would be blinded by _FORTIFY_SOURCE.
  # Nor in the tests themselves (see strand_tests), which are not optimised.
  set(not_a_test "$<NOT:$<BOOL:$<TARGET_PROPERTY:STRAND_TEST>>>")
  target_compile_options(strand_flags INTERFACE -fstack-protector-strong
    "$<${not_a_test}:-U_FORTIFY_SOURCE>" "$<${not_a_test}:-D_FORTIFY_SOURCE=3>")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(strand_flags INTERFACE -fcf-protection)
  endif()
endif()
