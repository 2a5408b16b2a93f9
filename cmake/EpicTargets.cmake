# Settings and helpers that every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# What each object takes to compile is noted (scripts/lib/compile-ledger), before another launcher, such as ccache.
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_LAUNCHER "${CMAKE_SOURCE_DIR}/scripts/lib/compile-ledger" ${CMAKE_${language}_COMPILER_LAUNCHER})
endforeach()

option(EPIC_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(EPIC_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (for example address,undefined)")

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(absl REQUIRED)
find_package(GTest REQUIRED)

# A faster linker where there is one; the default serves as well.
find_program(EPIC_LLD ld.lld)
if(EPIC_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# Warnings as errors for our own code; generated protobuf code is exempt (proto/CMakeLists.txt).
add_library(epic_options INTERFACE)
target_compile_options(epic_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
                       -Werror)
target_include_directories(epic_options INTERFACE "${CMAKE_SOURCE_DIR}")
if(EPIC_SANITIZE)
  add_compile_options(-fsanitize=${EPIC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${EPIC_SANITIZE})
endif()
if(EPIC_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# What a test calls is optimised, but for what is instantiated in both; its own matchers would be a third of the build's
# work, and run once. Those that compute much themselves are (OPTIMISED), and all under sanitizers, too slow without.
set(epic_test_options "")
set(epic_optimised_test_options "")
if(NOT EPIC_SANITIZE)
  set(epic_test_options -O0)
  set(epic_optimised_test_options $<$<CONFIG:Release>:-O1>)
endif()

# What nearly every source includes is parsed once for the libraries and once for the tests: half of a cold build. Sources
# include what they use all the same; a build with EPIC_PRECOMPILE off says where one does not.
option(EPIC_PRECOMPILE "Precompiled headers" ON)
set(epic_headers <algorithm> <array> <chrono> <functional> <iostream> <map> <memory> <mutex> <optional> <span> <sstream> <string>
    <vector> <absl/status/statusor.h>)
if(EPIC_PRECOMPILE)
  # A header is of use only to who has the same macros; some libraries ask for this one, with its _REENTRANT.
  add_compile_options(-pthread)
  # clang would put the headers' times into it: no two trees would have the same, and ccache would find nothing.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  file(CONFIGURE OUTPUT headers.cc CONTENT "int main() {}\n")
  add_library(epic_headers STATIC EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/headers.cc")
  target_link_libraries(epic_headers PRIVATE epic_options absl::statusor)
  target_precompile_headers(epic_headers PRIVATE ${epic_headers})
  # Programs are position-independent in another way than libraries, and tests are optimised otherwise.
  foreach(kind test optimised_test)
    add_executable(epic_${kind}_headers EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/headers.cc")
    target_compile_options(epic_${kind}_headers PRIVATE ${epic_${kind}_options})
    target_link_libraries(epic_${kind}_headers PRIVATE epic_options absl::statusor GTest::gtest GTest::gmock)
    target_precompile_headers(epic_${kind}_headers PRIVATE ${epic_headers} <gtest/gtest.h> <gmock/gmock.h>)
  endforeach()
endif()

# epic_library(NAME SOURCES a.cc ... [PUBLIC libs...] [PRIVATE libs...])
# A static library epic_NAME built from the sources of the calling folder.
function(epic_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(epic_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(epic_${name} PUBLIC ${ARG_PUBLIC} PRIVATE epic_options ${ARG_PRIVATE})
  target_include_directories(epic_${name} PUBLIC "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>")
  if(EPIC_PRECOMPILE)
    target_precompile_headers(epic_${name} REUSE_FROM epic_headers)
  endif()
endfunction()

# All tests that also run under AddressSanitizer and UBSan, in a tree of the preset asan-ubsan.
add_custom_target(sanitized_tests)
# And under ThreadSanitizer, in a tree of the preset tsan.
add_custom_target(threaded_tests)

# epic_test(NAME [SANITIZED] [THREADED] [OPTIMISED] SOURCES a_test.cc ... [LIBS libs...] [LABELS labels...] [TIMEOUT seconds])
# A GoogleTest program NAME, registered with ctest as one test under its own name; the label defaults to "unit". SANITIZED:
# scripts/test also runs it under the sanitizers; for the cores and what parses (label sanitized, target sanitized_tests).
# THREADED: under ThreadSanitizer, for what shares memory between threads (label threaded, target threaded_tests).
# OPTIMISED: the test's own code, too.
function(epic_test name)
  cmake_parse_arguments(ARG "SANITIZED;THREADED;OPTIMISED" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  set(kind test)
  if(ARG_OPTIMISED AND NOT EPIC_SANITIZE)
    set(kind optimised_test)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${epic_${kind}_options})
  target_link_libraries(${name} PRIVATE epic_options ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(EPIC_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM epic_${kind}_headers)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(ARG_SANITIZED)
    list(APPEND ARG_LABELS sanitized)
    add_dependencies(sanitized_tests ${name})
  endif()
  if(ARG_THREADED)
    list(APPEND ARG_LABELS threaded)
    add_dependencies(threaded_tests ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  # It ends what hangs, and says nothing about speed: under a sanitizer, beside other work, a test takes many times as long.
  if(EPIC_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

# epic_fuzzer(NAME [SECONDS n] SOURCES a_fuzz.cc ... [LIBS libs...])
# With EPIC_FUZZ a libFuzzer program NAME; its corpus is tests/corpus/NAME. SECONDS: how long a short run is, 8 if not
# given. scripts/dev fuzz runs all of them; it reads their names, programs and seconds from BUILD/fuzzers.txt.
function(epic_fuzzer name)
  if(NOT EPIC_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "SECONDS" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE epic_options ${ARG_LIBS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 8)
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY EPIC_FUZZERS "${name} $<TARGET_FILE:${name}> ${ARG_SECONDS}\n")
endfunction()

function(epic_write_fuzzers)
  get_property(fuzzers GLOBAL PROPERTY EPIC_FUZZERS)
  file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/fuzzers.txt" CONTENT "${fuzzers}")
endfunction()
if(EPIC_FUZZ)
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL epic_write_fuzzers)
endif()
