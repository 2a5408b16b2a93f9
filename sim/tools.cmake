# Programs that measure or run in virtual time.
epic_program(epic-loss-tolerance SOURCES loss_tolerance.cc LIBS epic_sim fmt::fmt epic_command_line)
add_executable(epic-overlap overlap_main.cc overlap.cc)
target_link_libraries(epic-overlap PRIVATE epic_options epic_sim epic_commlib_core fmt::fmt epic_command_line)

epic_program(epic-goodput SOURCES goodput_main.cc goodput.cc LIBS epic_sim epic_commlib_core fmt::fmt epic_command_line)
epic_unite(epic-goodput)
epic_program(epic-multicast SOURCES multicast_main.cc multicast_run.cc tree_broadcast.cc LIBS epic_sim epic_commlib_core fmt::fmt epic_command_line)
add_dependencies(unit_programs epic-goodput)
add_test(NAME reproduce COMMAND "${CMAKE_SOURCE_DIR}/scripts/reproduce" netreduce --build "${CMAKE_BINARY_DIR}")
set_tests_properties(reproduce PROPERTIES LABELS unit)

epic_not_by_default(epic-loss-tolerance epic-multicast epic-overlap)

add_subdirectory(dsa)
add_subdirectory(shared)
add_subdirectory(restarts)
add_executable(epic-sim epic_sim.cc many_seeds.cc)
target_link_libraries(epic-sim PRIVATE epic_options epic_sim_restarts epic_sim absl::strings fmt::fmt epic_command_line)
# The manager without gRPC, whose libraries take longer to load than a run takes.
target_link_options(epic-sim PRIVATE -Wl,--as-needed)
find_package(benchmark REQUIRED)
add_executable(sim_bench sim_bench.cc)
epic_not_by_default(sim_bench)
target_link_libraries(sim_bench PRIVATE epic_options epic_sim benchmark::benchmark_main benchmark::benchmark)
epic_test(epic_sim_test SOURCES epic_sim_test.cc LIBS fmt::fmt TIMEOUT 300)
target_compile_definitions(epic_sim_test PRIVATE EPIC_SIM_PROGRAM="$<TARGET_FILE:epic-sim>")
add_dependencies(epic_sim_test epic-sim)

add_subdirectory("${CMAKE_SOURCE_DIR}/examples/leaf_buffered_mode" "${CMAKE_BINARY_DIR}/examples/leaf_buffered_mode")
