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
# work, and run once. Those that compute much themselves are (OPTIMISED). No fuzzer steers by the branches of a test.
set(epic_test_options -O0)
set(epic_optimised_test_options $<$<CONFIG:Release>:-O1>)
if(EPIC_FUZZ)
  list(APPEND epic_test_options -fno-sanitize=fuzzer-no-link)
  list(APPEND epic_optimised_test_options -fno-sanitize=fuzzer-no-link)
endif()

# GCC collects its garbage, by itself, from a heap of 128 MiB on, however much memory there is: a tenth of what a test of many
# matchers takes to compile. Without that a united test of the manager needs 700 MB, and 620 with it.
add_compile_options("$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=2097152>")

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
  foreach(kind "" control_)
    add_library(epic_${kind}headers STATIC EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/headers.cc")
    target_link_libraries(epic_${kind}headers PRIVATE epic_options absl::statusor)
    target_precompile_headers(epic_${kind}headers PRIVATE ${epic_headers})
  endforeach()
  target_compile_options(epic_control_headers PRIVATE -O0)
  # Programs are position-independent in another way than libraries, and tests are optimised otherwise.
  foreach(kind test optimised_test)
    add_executable(epic_${kind}_headers EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/headers.cc")
    target_compile_options(epic_${kind}_headers PRIVATE ${epic_${kind}_options})
    target_link_libraries(epic_${kind}_headers PRIVATE epic_options absl::statusor GTest::gtest GTest::gmock)
    target_precompile_headers(epic_${kind}_headers PRIVATE ${epic_headers} <gtest/gtest.h> <gmock/gmock.h>)
  endforeach()
  add_executable(epic_program_headers EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/headers.cc")
  target_compile_options(epic_program_headers PRIVATE ${epic_test_options})
  target_link_libraries(epic_program_headers PRIVATE epic_options absl::statusor)
  target_precompile_headers(epic_program_headers PRIVATE ${epic_headers})
endif()

# Several sources are compiled as one, where that is said (UNITED): what they instantiate alike is compiled once. So the names
# that they have for themselves differ within a target. On the data path, too: the order in which they are listed here is the
# order in which they are compiled, so that its code is the same on every machine (ADR 43). Under sanitizers all is, in
# smaller batches. The preset dev has it off, so that each source is a file of its own.
option(EPIC_UNITE "Compile several sources of a target as one" OFF)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 7)
if(EPIC_UNITE AND EPIC_SANITIZE)
  set(CMAKE_UNITY_BUILD ON)
endif()
# Two dozen at once: of a test of 41 sources a compiler instantiates most but once, and takes 1.1 GB.
function(epic_unite target)
  if(EPIC_UNITE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
  endif()
endfunction()

# epic_apart(a.cc ...): sources of the calling folder that have names of their own which others of their target have as well.
function(epic_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# epic_replaced(a.cc ...): sources of the calling folder in whose place canaries have others (check/canaries). Trees of the
# sanitizers have no canaries.
function(epic_replaced)
  if(NOT EPIC_SANITIZE)
    epic_apart(${ARGN})
  endif()
endfunction()

# epic_library(NAME [UNITED] [CONTROL] SOURCES a.cc ... [PUBLIC libs...] [PRIVATE libs...])
# A static library epic_NAME built from the sources of the calling folder. CONTROL: it computes little, and is not optimised
# under sanitizers, where to optimise takes longer than what it does there.
function(epic_library name)
  cmake_parse_arguments(ARG "UNITED;CONTROL" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(epic_${name} STATIC ${ARG_SOURCES})
  if(ARG_UNITED)
    epic_unite(epic_${name})
  endif()
  target_link_libraries(epic_${name} PUBLIC ${ARG_PUBLIC} PRIVATE epic_options ${ARG_PRIVATE})
  target_include_directories(epic_${name} PUBLIC "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>")
  set(headers epic_headers)
  if(ARG_CONTROL AND EPIC_SANITIZE)
    target_compile_options(epic_${name} PRIVATE -O0)
    set(headers epic_control_headers)
  endif()
  if(EPIC_PRECOMPILE)
    target_precompile_headers(epic_${name} REUSE_FROM ${headers})
  endif()
endfunction()

# epic_program(NAME [COMPUTES] SOURCES a.cc ... [LIBS libs...])
# A program in C++ whose own code computes little: what only tests run, and what reads a command line and calls a library.
# That code is not optimised, as that of tests. COMPUTES: tests start it so often that it is.
function(epic_program name)
  cmake_parse_arguments(ARG "COMPUTES" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE epic_options ${ARG_LIBS})
  if(ARG_COMPUTES)
    target_compile_options(${name} PRIVATE ${epic_optimised_test_options})
    return()
  endif()
  target_compile_options(${name} PRIVATE ${epic_test_options})
  if(EPIC_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM epic_program_headers)
  endif()
endfunction()

# epic_program_library(NAME SOURCES a.cc ... [LIBS libs...])
# A static library epic_NAME of what several such programs share.
function(epic_program_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(epic_${name} STATIC ${ARG_SOURCES})
  target_compile_options(epic_${name} PRIVATE ${epic_test_options})
  target_link_libraries(epic_${name} PUBLIC ${ARG_LIBS} PRIVATE epic_options)
endfunction()

# What a default run of scripts/test starts from this tree: all that a plain build makes, but for what epic_not_by_default
# names and for tests that a default run has under the sanitizers alone.
add_custom_target(default_programs)
# All unit tests, also those, and what they start.
add_custom_target(unit_programs)

# epic_not_by_default(TARGET...): programs that no test of a default run starts, as benchmarks.
function(epic_not_by_default)
  set_target_properties(${ARGN} PROPERTIES EPIC_NOT_BY_DEFAULT ON)
endfunction()

# What is built in `dir` and below goes into default_programs.
function(epic_collect_programs dir)
  get_property(targets DIRECTORY "${dir}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(left_out ${target} EXCLUDE_FROM_ALL)
    get_target_property(not_by_default ${target} EPIC_NOT_BY_DEFAULT)
    if(type MATCHES "EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY|UTILITY" AND NOT left_out AND NOT not_by_default)
      add_dependencies(default_programs ${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY "${dir}" PROPERTY SUBDIRECTORIES)
  foreach(folder ${folders})
    epic_collect_programs("${folder}")
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL epic_collect_programs "${CMAKE_SOURCE_DIR}")

# All tests that also run under AddressSanitizer and UBSan, in a tree of the preset asan-ubsan: those that every run has, and by
# parts those of which a default run has one, in turn.
add_custom_target(sanitized_tests)
add_custom_target(sanitized_always)
add_dependencies(sanitized_tests sanitized_always)
foreach(part collectives explorer hosts peers shared world)
  add_custom_target(sanitized_${part})
  add_dependencies(sanitized_tests sanitized_${part})
endforeach()
# And under ThreadSanitizer, in a tree of the preset tsan: by parts, of which a default run has one, in turn.
add_custom_target(threaded_tests)
foreach(part calls numbers commlib softnic engine)
  add_custom_target(threaded_${part})
  add_dependencies(threaded_tests threaded_${part})
endforeach()

# *out is what GoogleTest takes for all suites of a source of the calling folder.
function(epic_suites_of source out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  file(STRINGS "${source}" tests REGEX "^TEST(_F|_P)?\\(")
  list(TRANSFORM tests REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+),.*" "\\1")
  list(REMOVE_DUPLICATES tests)
  list(TRANSFORM tests REPLACE "(.+)" "\\1.*:*/\\1.*")
  list(JOIN tests ":" filter)
  set(${out} "${filter}" PARENT_SCOPE)
endfunction()

# epic_test(NAME [SANITIZED [TURN part]] [THREADED part] [OPTIMISED] [IN_PARTS] [APART] [BY_SOURCE] SOURCES a_test.cc ... [LIBS libs...] [LABELS labels...] [TIMEOUT seconds])
# A GoogleTest program NAME, registered with ctest as one test under its own name; the label defaults to "unit".
# SANITIZED: scripts/test runs it under the sanitizers; for the cores and what parses (label sanitized, target
# sanitized_tests). A default run has it there alone (label sanitized-only), and --full and --quick without them too.
# OPTIMISED: it computes much, and its own code is optimised. IN_PARTS: the same, but under sanitizers, where to optimise
# it takes longer than what that saves. If either is SANITIZED as well, a default run has all of it without the
# sanitizers, and with them a part that follows from the commit (label sanitized-part).
# TURN: a default run has it under the sanitizers if its part's turn has come, which follows from the commit, and in any case
# without them; the part is collectives, explorer, hosts, peers, shared or world (labels sanitized-turn and sanitized-turn-PART, target sanitized_PART).
# THREADED: under ThreadSanitizer, for what shares memory between threads; the part is calls, numbers, commlib, softnic or engine (labels
# threaded and threaded-PART, target threaded_PART).
# APART: its sources are not united.
# BY_SOURCE: each a_test.cc is a test of its own for ctest, a_test, which runs the suites of that file: sources that are compiled as
# one take half of the time, and their tests still run side by side.
function(epic_test name)
  cmake_parse_arguments(ARG "SANITIZED;OPTIMISED;IN_PARTS;APART;BY_SOURCE" "TURN;THREADED;TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(THREADED IN_LIST ARG_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${name}: THREADED needs a part")
  endif()
  set(kind test)
  if(ARG_OPTIMISED OR (ARG_IN_PARTS AND NOT EPIC_SANITIZE))
    set(kind optimised_test)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(ARG_APART)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  else()
    epic_unite(${name})
  endif()
  target_compile_options(${name} PRIVATE ${epic_${kind}_options})
  target_link_libraries(${name} PRIVATE epic_options ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(EPIC_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM epic_${kind}_headers)
  endif()
  set(tests ${name})
  if(ARG_BY_SOURCE)
    set(tests "")
    foreach(source ${ARG_SOURCES})
      if(source MATCHES "^(.*_test)\\.cc$")
        set(part ${CMAKE_MATCH_1})
        epic_suites_of(${source} filter)
        add_test(NAME ${part} COMMAND ${name} "--gtest_filter=${filter}")
        add_custom_target(${part} DEPENDS ${name})
        list(APPEND tests ${part})
      endif()
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if("unit" IN_LIST ARG_LABELS)
    add_dependencies(unit_programs ${name})
  endif()
  if(ARG_SANITIZED)
    if(ARG_TURN)
      list(APPEND ARG_LABELS sanitized-turn sanitized-turn-${ARG_TURN})
      add_dependencies(sanitized_${ARG_TURN} ${name})
    else()
      list(APPEND ARG_LABELS sanitized)
      add_dependencies(sanitized_always ${name})
    endif()
    if(ARG_OPTIMISED OR ARG_IN_PARTS)
      list(APPEND ARG_LABELS sanitized-part)
    elseif(NOT ARG_TURN)
      list(APPEND ARG_LABELS sanitized-only)
      epic_not_by_default(${name})
    endif()
  endif()
  if(ARG_THREADED)
    list(APPEND ARG_LABELS threaded threaded-${ARG_THREADED})
    add_dependencies(threaded_${ARG_THREADED} ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  # It ends what hangs, and says nothing about speed: under a sanitizer, beside other work, a test takes many times as long.
  if(EPIC_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  set_tests_properties(${tests} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

# epic_fuzzer(NAME [SECONDS n] SOURCES a_fuzz.cc ... [LIBS libs...])
# With EPIC_FUZZ a libFuzzer program NAME; its seeds are those of tests/corpus/NAME.tar and of the folder tests/corpus/NAME.
# SECONDS: how long a short run is, 1 if not given. scripts/dev fuzz runs all of them; it reads their names, programs,
# seconds and kinds from BUILD/fuzzers.txt. The
# kind is grpc (target fuzzers_grpc) if gRPC is among what it links, which is most of the fuzzers' compiling, else cores
# (target fuzzers_cores).
function(epic_fuzzer name)
  if(NOT EPIC_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "SECONDS" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE epic_options ${ARG_LIBS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 1)
  endif()
  set_property(TARGET ${name} PROPERTY EPIC_SECONDS ${ARG_SECONDS})
  set_property(GLOBAL APPEND PROPERTY EPIC_FUZZERS ${name})
endfunction()

# All that the target is linked with, directly or not, goes into *out.
function(epic_linked_with target out)
  set(found "")
  set(open ${target})
  while(open)
    list(POP_FRONT open next)
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      set(libraries "")
      get_target_property(type ${next} TYPE)
      if(property STREQUAL "INTERFACE_LINK_LIBRARIES" OR NOT type STREQUAL "INTERFACE_LIBRARY")
        get_target_property(libraries ${next} ${property})
      endif()
      foreach(library ${libraries})
        string(REGEX REPLACE "^.<LINK_ONLY:(.*)>$" "\\1" library "${library}")
        if(TARGET "${library}" AND NOT library IN_LIST found)
          list(APPEND found ${library})
          list(APPEND open ${library})
        endif()
      endforeach()
    endforeach()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

function(epic_write_fuzzers)
  get_property(fuzzers GLOBAL PROPERTY EPIC_FUZZERS)
  set(lines "")
  foreach(name ${fuzzers})
    epic_linked_with(${name} libraries)
    set(kind cores)
    if("epic_proto" IN_LIST libraries)
      set(kind grpc)
    endif()
    add_dependencies(fuzzers_${kind} ${name})
    get_target_property(seconds ${name} EPIC_SECONDS)
    string(APPEND lines "${name} $<TARGET_FILE:${name}> ${seconds} ${kind}\n")
  endforeach()
  file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/fuzzers.txt" CONTENT "${lines}")
endfunction()
if(EPIC_FUZZ)
  add_custom_target(fuzzers_cores)
  add_custom_target(fuzzers_grpc)
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL epic_write_fuzzers)
endif()
