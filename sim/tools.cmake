# Programs that measure in virtual time.
find_package(CLI11 REQUIRED)
add_executable(epic-loss-tolerance loss_tolerance.cc)
target_link_libraries(epic-loss-tolerance PRIVATE epic_options epic_sim fmt::fmt CLI11::CLI11)
add_executable(epic-overlap overlap_main.cc overlap.cc collectives_testing.cc)
target_link_libraries(epic-overlap PRIVATE epic_options epic_sim epic_commlib_core fmt::fmt CLI11::CLI11)

add_subdirectory("${CMAKE_SOURCE_DIR}/examples/leaf_buffered_mode" "${CMAKE_BINARY_DIR}/examples/leaf_buffered_mode")
