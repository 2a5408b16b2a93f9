# The switch as a core of its own, and the daemon round it.
epic_library(switch UNITED SOURCES core/announcement.cc core/echo.cc core/forwarding.cc core/neighbours.cc core/probe.cc core/source_guard.cc core/switch.cc
             PUBLIC epic_engine PRIVATE fmt::fmt)
epic_test(switch_test SOURCES core/announcement_test.cc core/echo_test.cc core/forwarding_test.cc core/neighbours_hosts_test.cc core/neighbours_test.cc core/source_guard_test.cc core/super_frame_test.cc core/switch_borne_test.cc core/switch_test.cc
          LIBS epic_switch)

find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
epic_library(switch_trace SOURCES daemon/trace.cc
             PUBLIC epic_switch PRIVATE fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json)
epic_library(switch_daemon UNITED
  SOURCES daemon/control.cc daemon/convert.cc daemon/options.cc daemon/ports.cc daemon/service.cc daemon/shard.cc
          daemon/fence.cc daemon/sharded_control.cc
  PUBLIC epic_switch epic_switch_trace epic_io epic_proto
  PRIVATE epic_acceptor fmt::fmt spdlog::spdlog epic_command_line Threads::Threads)
target_compile_definitions(epic_switch_daemon PRIVATE EPIC_VERSION="${PROJECT_VERSION}")
add_executable(incengine daemon/main.cc)
target_link_libraries(incengine PRIVATE epic_options epic_switch_daemon spdlog::spdlog Threads::Threads)
# Where an installed tree has what is loaded when asked for, seen from the daemon.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_FULL_BINDIR}" OUTPUT_VARIABLE epic_lib_from_bin)
target_compile_definitions(incengine PRIVATE EPIC_VERSION="${PROJECT_VERSION}" EPIC_MODULES_FROM_BIN="${epic_lib_from_bin}/epic/io")
set_target_properties(incengine PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/incengine")
install(TARGETS incengine RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT daemons)

epic_test(daemon_test SOURCES daemon/daemon_pool_test.cc daemon/daemon_test.cc daemon/fence_test.cc daemon/watch_test.cc LIBS epic_switch_daemon spdlog::spdlog)
epic_test(shards_test THREADED engine SOURCES daemon/shards_fence_test.cc daemon/shards_test.cc LIBS epic_switch_daemon spdlog::spdlog)

# What tests/netns, which scripts/test runs, calls the daemon with.
epic_program(switch_call SOURCES "${CMAKE_SOURCE_DIR}/tests/netns/switch_call_testing.cc" LIBS epic_proto)
